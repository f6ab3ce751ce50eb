//! `POST /v1/sql`: a statement, and its rows.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State as Shared},
    http::{HeaderValue, StatusCode, Version, header},
    response::{IntoResponse, Response},
};
use basalt_core::{logical::WIDE_DIGITS, query::Literal};
use basalt_proto::v1::ErrorReason;
use futures_util::stream;
use hyper::body::Bytes;
use serde_json::{Value, value::RawValue};
use tokio::time::Instant;

use super::{
    error::{refuse, told},
    formats::{Encoder, Format},
    options::{Options, content_type, wrong},
    read::too_large,
    routes::Place,
};
use crate::{
    call::{Arrival, Call},
    limits,
    sql::{
        RowStream, Statement,
        numbers::{self, TooManyDigits},
    },
    state::State,
    status::{RequestError, Result},
};

/// What the body of a request is: a statement.
const STATEMENT: &str = "application/sql";

pub(super) async fn sql(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let Some(mut call) = request.extensions().get::<Arrival>().cloned().map(Call::of) else {
        return refuse(&RequestError::internal());
    };
    let Some(format) = Format::accepted(request.headers()) else {
        let error = wrong(format!("nothing that is answered is accepted: {}", Format::all())).at("accept");
        call.fail(error.clone());
        return told(StatusCode::NOT_ACCEPTABLE, &error);
    };
    if let Err(error) = content_type(request.headers(), &[STATEMENT]) {
        call.fail(error.clone());
        return told(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
    }
    match begin(&state, &mut call, request, format).await {
        Ok(answer) => answer.response(call),
        Err(error) => {
            call.fail(error.clone());
            refuse(&error)
        }
    }
}

/// An answer whose first rows are there.
struct Answer {
    state: Arc<State>,
    rows: RowStream,
    encoder: Encoder,
    format: Format,
    first: Vec<u8>,
    count: u64,
    /// It has no more rows than the first.
    is_complete: bool,
}

async fn begin(state: &Arc<State>, call: &mut Call, request: Request, format: Format) -> Result<Answer> {
    if request.version() < Version::HTTP_11 {
        // Its answers end with the connection, whether they are complete or not.
        return Err(wrong("answers are cut in pieces, which HTTP/1.0 has not; ask with HTTP/1.1"));
    }
    let options = Options::new(request.uri(), request.headers(), &["deadline_ms", "null", "parameters"])?;
    let asked = options.deadline(state, call)?;
    let deadline = asked.unwrap_or(state.deadline(call)?);
    if Instant::now() >= deadline {
        return Err(RequestError::deadline());
    }
    let null = options.get("null").unwrap_or_default().to_owned();
    if !null.is_empty() && format != Format::Csv {
        return Err(
            wrong("`null` says what stands for null in CSV, and the answer is in another format").at("null")
        );
    }
    if null.len() > limits::HTTP_NULL_BYTES {
        return Err(
            wrong(format!("what stands for null has at most {} bytes", limits::HTTP_NULL_BYTES)).at("null")
        );
    }
    let parameters = options.get("parameters").map(parameters).transpose()?.unwrap_or_default();
    let place = request.extensions().get::<Arc<Place>>().cloned().ok_or_else(RequestError::internal)?;
    let most = basalt_sql::limits::STATEMENT_BYTES;
    let (text, _) = place.first(&mut request.into_body(), most + 1, deadline).await?;
    if text.len() > most {
        return Err(too_large("the body", most));
    }
    let sql = String::from_utf8(text).map_err(|_| wrong("the statement is not UTF-8"))?;
    let (connection, running) = (call.connection(), call.take_running());
    let (caller, method, connection) = (call.caller(), call.label(), &connection);
    let statement = Statement { sql, parameters, caller, method, connection, deadline, running };
    let mut rows = RowStream::begin(state, statement, None).await?;
    let mut encoder = Encoder::new(format, rows.schema(), &null)?;
    // What goes wrong before the first rows are there has a code of its own.
    let Some(batch) = rows.next().await? else {
        let first = Vec::new();
        return Ok(Answer {
            state: Arc::clone(state),
            rows,
            encoder,
            format,
            first,
            count: 0,
            is_complete: true,
        });
    };
    let count = batch.num_rows() as u64;
    let first;
    (encoder, first) = encode(state, encoder, batch).await?;
    Ok(Answer { state: Arc::clone(state), rows, encoder, format, first, count, is_complete: false })
}

/// Encodes rows where such work belongs.
async fn encode(
    state: &State,
    mut encoder: Encoder,
    batch: arrow_array::RecordBatch,
) -> Result<(Encoder, Vec<u8>)> {
    let made = state.cpu.run(move || encoder.rows(&batch).map(|bytes| (encoder, bytes)));
    made.await?
}

impl Answer {
    /// The response, whose body is cut off where the answer turns out not to be complete.
    fn response(self, mut call: Call) -> Response {
        call.rows = self.count;
        let kind = HeaderValue::from_static(self.format.media_type());
        let body = stream::unfold(Some((self, call)), async |under_way| {
            let (answer, mut call) = under_way?;
            match answer.next(&mut call).await {
                Ok((bytes, Some(answer))) => Some((Ok(bytes), Some((answer, call)))),
                Ok((bytes, None)) => {
                    call.done();
                    Some((Ok(bytes), None))
                }
                Err(error) => {
                    let message = error.message().to_owned();
                    call.fail(error);
                    Some((Err(std::io::Error::other(message)), None))
                }
            }
        });
        ([(header::CONTENT_TYPE, kind)], Body::from_stream(body)).into_response()
    }

    /// The next bytes, and what is left.
    async fn next(mut self, call: &mut Call) -> Result<(Bytes, Option<Self>)> {
        let mut bytes = std::mem::take(&mut self.first);
        while bytes.is_empty() && !self.is_complete {
            match self.rows.next().await? {
                Some(batch) => {
                    call.rows += batch.num_rows() as u64;
                    (self.encoder, bytes) = encode(&self.state, self.encoder, batch).await?;
                }
                None => self.is_complete = true,
            }
        }
        if !bytes.is_empty() {
            return Ok((bytes.into(), Some(self)));
        }
        let last = self.encoder.finish()?;
        Ok((last.into(), None))
    }
}

/// The values of parameters: an array of JSON.
fn parameters(text: &str) -> Result<Vec<Literal>> {
    let place = |error: RequestError| error.at("parameters");
    if text.len() > limits::HTTP_PARAMETERS_BYTES {
        let message =
            format!("parameters of {} bytes; the limit is {}", text.len(), limits::HTTP_PARAMETERS_BYTES);
        return Err(place(RequestError::new(ErrorReason::MessageTooLarge, message)));
    }
    let values: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|error| place(wrong(format!("the parameters are no array of JSON: {error}"))))?;
    values
        .into_iter()
        .enumerate()
        .map(|(i, value)| literal(value).map_err(|error| error.at(format!("parameters[{i}]"))))
        .collect()
}

fn literal(text: &RawValue) -> Result<Literal> {
    let value: Value = serde_json::from_str(text.get())
        .map_err(|error| wrong(format!("a parameter is no value of JSON: {error}")))?;
    Ok(match value {
        Value::Null => Literal::Null,
        Value::Bool(value) => Literal::Bool(value),
        Value::String(text) => Literal::Text(text),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => Literal::Int(value),
            (_, Some(value), _) => Literal::UInt(value),
            (_, _, Some(value)) => of_digits(text.get(), value)?,
            _ => return Err(no_number(text.get())),
        },
        Value::Array(_) | Value::Object(_) => {
            return Err(wrong("a parameter is null, true or false, a number or a text"));
        }
    })
}

fn of_digits(text: &str, float: f64) -> Result<Literal> {
    let number = numbers::of_json(text, float).map_err(|TooManyDigits| {
        let message = format!(
            "a parameter that no float says exactly has at most {WIDE_DIGITS} digits, before and behind the point: write \
             fewer, an exponent for a float, or a text"
        );
        RequestError::new(ErrorReason::InvalidQuery, message)
    })?;
    number.ok_or_else(|| no_number(text))
}

fn no_number(text: &str) -> RequestError {
    wrong(format!("{text} is no number that a parameter may be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_values_of_json() {
        let all = parameters(r#"[null, true, -1, 18446744073709551615, 0.5, "2013-01-01"]"#).unwrap();
        let expected = [
            Literal::Null,
            Literal::Bool(true),
            Literal::Int(-1),
            Literal::UInt(u64::MAX),
            Literal::Float(0.5),
            Literal::Text("2013-01-01".into()),
        ];
        assert_eq!(all, expected);
        let exact = [
            Literal::Decimal { unscaled: 1_234_567_890_123_456_789, scale: 2 },
            Literal::Decimal { unscaled: -123_456_789_012_345_678_901_234_567_890, scale: 0 },
            Literal::Float(1e22),
            Literal::Text("é\n".into()),
        ];
        let text = r#"[ 12345678901234567.89 , -123456789012345678901234567890,1e22, "\u00e9\n"]"#;
        assert_eq!(parameters(text).unwrap(), exact);
        let digits = "123456789".repeat(5);
        for long in [format!("[1, 0.{digits}]"), format!("[1, {digits}]")] {
            let error = parameters(&long).unwrap_err();
            assert!(error.message().contains("at most 38 digits"), "{error:?}");
            assert_eq!(error.reason(), "INVALID_QUERY", "{long}");
            assert_eq!(error.place(), Some("parameters[1]"), "{long}");
        }
        assert_eq!(parameters("[1.5e-400]").unwrap(), [Literal::Float(0.0)]);
        let deep = format!("[{}{}]", "[".repeat(1000), "]".repeat(1000));
        for text in [
            "",
            "1",
            "{}",
            "[[1]]",
            "[{}]",
            "[1",
            "[1] 2",
            "[1e400]",
            "[01]",
            "[1.]",
            r#"["\ud800"]"#,
            deep.as_str(),
        ] {
            assert_eq!(parameters(text).unwrap_err().reason(), "PROTOCOL", "{text}");
        }
        assert!(parameters(&"[".repeat(10_000)).is_err());
    }
}
