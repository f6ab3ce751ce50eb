//! What a request says beside its body: in its query string, or in headers of the same meaning.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use basalt_proto::v1::ErrorReason;
use percent_encoding::percent_decode;
use tokio::time::Instant;

use crate::{
    call::Call,
    state::State,
    status::{RequestError, Result},
};

/// The options of a request, each of which is known.
#[derive(Debug, Default)]
pub(super) struct Options(Vec<(String, String)>);

impl Options {
    /// Those of a query string, of a list of names, and of headers `Basalt-NAME`, in which `_` is `-`.
    pub(super) fn new(uri: &Uri, headers: &HeaderMap, known: &[&str]) -> Result<Self> {
        let mut options = Vec::new();
        for part in uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                let message = format!("no option {name:?}; there is: {}", known.join(", "));
                return Err(wrong(message).at("query"));
            }
            options.push((name, value));
        }
        for name in known {
            let header = format!("basalt-{}", name.replace('_', "-"));
            for value in headers.get_all(&header) {
                let value = std::str::from_utf8(value.as_bytes())
                    .map_err(|_| wrong(format!("the header {header} is not UTF-8")))?;
                options.push(((*name).to_owned(), value.to_owned()));
            }
        }
        options.sort();
        let twice = options.iter().zip(options.iter().skip(1)).find(|((a, _), (b, _))| a == b);
        if let Some(((name, _), _)) = twice {
            return Err(wrong(format!("the option {name:?} is there twice")).at("query"));
        }
        Ok(Self(options))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The values of an option, separated by commas.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let values = self.get(name).unwrap_or_default().split(',').map(str::trim);
        values.filter(|value| !value.is_empty()).map(str::to_owned).collect()
    }

    /// Whether an option says `true`.
    pub(super) fn is_set(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(other) => Err(wrong(format!("{name} is true or false, not {other:?}")).at(name)),
        }
    }

    /// The moment of `deadline_ms`, no later than any request's.
    pub(super) fn deadline(&self, state: &State, call: &Call) -> Result<Option<Instant>> {
        let Some(text) = self.get("deadline_ms") else { return Ok(None) };
        let millis: u64 = text
            .parse()
            .map_err(|_| wrong(format!("{text:?} is no number of milliseconds")).at("deadline_ms"))?;
        Ok(Some(call.at() + Duration::from_millis(millis).min(state.max_deadline)))
    }
}

/// The media type of a request's body, without its parameters; what a form of a browser may send is none. A page of anybody
/// can have a browser send such a request to a server on its machine, unasked.
pub(super) fn content_type(headers: &HeaderMap, taken: &[&'static str]) -> Result<&'static str> {
    let is_plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    if let Some(coding) = headers.get(header::CONTENT_ENCODING).filter(|coding| !is_plain(coding)) {
        let message = format!("the Content-Encoding is {coding:?}; taken is a body as it is");
        return Err(wrong(message).at("content-encoding"));
    }
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given = given.map(|given| media_type(given).to_ascii_lowercase());
    let known = given.as_deref().and_then(|given| taken.iter().find(|known| **known == given));
    known.copied().ok_or_else(|| {
        let given = given.unwrap_or_else(|| "none".to_owned());
        let message = format!("the Content-Type is {given}; taken is: {}", taken.join(", "));
        wrong(message).at("content-type")
    })
}

/// A media type without its parameters.
pub(super) fn media_type(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

fn decoded(text: &str) -> Result<String> {
    let bytes = text.replace('+', " ");
    let text = percent_decode(bytes.as_bytes()).decode_utf8();
    text.map(Into::into).map_err(|_| wrong("the query string is not UTF-8").at("query"))
}

pub(super) fn wrong(message: impl Into<String>) -> RequestError {
    RequestError::new(ErrorReason::Protocol, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_and_there_once() {
        let read = |uri: &str, headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            Options::new(&uri.parse().unwrap(), &headers.collect(), &["deadline_ms", "parameters"])
        };
        let options = read("/v1/sql?parameters=%5B1,%22a+b%22%5D&deadline_ms=5", &[]).unwrap();
        assert_eq!((options.get("parameters"), options.get("deadline_ms")), (Some("[1,\"a b\"]"), Some("5")));
        let options = read("/v1/sql?", &[("basalt-deadline-ms", "7"), ("basalt-other", "1")]).unwrap();
        assert_eq!((options.get("deadline_ms"), options.get("parameters")), (Some("7"), None));
        for (uri, headers) in [
            ("/v1/sql?deadline=1", &[][..]),
            ("/v1/sql?deadline_ms=1&deadline_ms=1", &[]),
            ("/v1/sql?deadline_ms=1", &[("basalt-deadline-ms", "1")]),
            ("/v1/sql", &[("basalt-deadline-ms", "1"), ("basalt-deadline-ms", "2")]),
            ("/v1/sql?parameters=%ff", &[]),
        ] {
            assert_eq!(read(uri, headers).unwrap_err().reason(), "PROTOCOL", "{uri}");
        }
    }

    #[test]
    fn what_a_form_sends_is_not_taken() {
        let taken = |value: Option<&'static str>| {
            let headers = value.map(|value| (header::CONTENT_TYPE, value.parse().unwrap()));
            content_type(&headers.into_iter().collect(), &["application/sql"])
        };
        assert_eq!(taken(Some("Application/SQL; charset=utf-8")).unwrap(), "application/sql");
        for form in [
            None,
            Some("text/plain"),
            Some("text/plain;application/sql"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=application/sql"),
            Some(""),
        ] {
            assert!(taken(form).is_err(), "{form:?}");
        }
    }

    #[test]
    fn what_is_compressed_is_not_taken_for_what_is_in_it() {
        let taken = |coding: &'static str| {
            let headers = [(header::CONTENT_TYPE, "text/csv"), (header::CONTENT_ENCODING, coding)];
            let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
            content_type(&headers.into_iter().collect(), &["text/csv"])
        };
        assert_eq!(taken("Identity").unwrap(), "text/csv");
        assert!(taken("gzip").unwrap_err().message().contains("Content-Encoding"));
    }
}
