//! Errors of `/v1`: the reason, the message and the place that a client of gRPC hears, as JSON with HTTP's own codes.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tonic::Code;

use crate::{limits, status::RequestError, trace};

#[derive(Debug, Serialize)]
struct Body<'a> {
    error: Told<'a>,
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    reason: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    /// By which the log knows the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

/// The answer that is an error.
pub(super) fn refuse(error: &RequestError) -> Response {
    told(status(error), error)
}

/// The same with a code that says more than the reason's.
pub(super) fn told(status: StatusCode, error: &RequestError) -> Response {
    let told = Told {
        reason: error.reason(),
        message: error.message(),
        place: error.place(),
        request_id: request_id(),
    };
    let mut response = (status, json(&Body { error: told })).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"basalt\""));
    }
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        let seconds = limits::RETRY_DELAY.as_secs().max(1);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The answer of a server that is built without SQL.
#[cfg(not(feature = "sql"))]
pub(super) fn without_sql() -> Response {
    let told = Told {
        reason: "UNIMPLEMENTED",
        message: "this server is built without the feature `sql`; build it with `--features sql`",
        place: None,
        request_id: request_id(),
    };
    let body = json(&Body { error: told });
    (StatusCode::NOT_IMPLEMENTED, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn request_id() -> Option<String> {
    trace::current().map(|trace| trace.id().to_string())
}

/// A value that is made here as a line of JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(mut text) => {
            text.push('\n');
            text
        }
        // Its maps have texts as keys.
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            String::new()
        }
    }
}

/// HTTP's code for an error.
fn status(error: &RequestError) -> StatusCode {
    match error.reason() {
        "MESSAGE_TOO_LARGE" => return StatusCode::PAYLOAD_TOO_LARGE,
        "MEMORY_LIMIT" => return StatusCode::SERVICE_UNAVAILABLE,
        "VERSION_GONE" => return StatusCode::GONE,
        // The request names it; what the path names is a table.
        "COLUMN_NOT_FOUND" => return StatusCode::BAD_REQUEST,
        _ => {}
    }
    match error.code() {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::OutOfRange => StatusCode::UNPROCESSABLE_ENTITY,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        // Whoever asked gave up, left half of a body, or was cancelled by others: no fault of the server, and no code of the
        // standard's. Others use this one (`google.rpc.Code`, nginx).
        // Default: not taken, for 499 is a code.
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
