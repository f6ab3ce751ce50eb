//! The id of a request: the client's where it is short and plain, else one that is made here.

use std::fmt;

use hyper::HeaderMap;

use crate::limits;

/// The header, and the key of gRPC's metadata.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// See the module. One that is made here is the id of the query that it asks for, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Made { run: u64, number: u64 },
    Given(Box<str>),
}

impl Id {
    /// What headers give. It stands in log lines and in headers, so it has no sign that means something there.
    pub(super) fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(REQUEST_ID)?.to_str().ok()?;
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b':');
        let is_fine = (1..=limits::X_REQUEST_ID_BYTES).contains(&text.len()) && text.bytes().all(is_plain);
        is_fine.then(|| Self::Given(text.into()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made { run, number } => write!(f, "{run:x}-{number}"),
            Self::Given(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn ids_of_clients_are_taken_where_they_are_short_and_plain() {
        let given = |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).ok()?;
            let headers = [(REQUEST_ID.parse().unwrap(), value)].into_iter().collect();
            Id::of_headers(&headers).map(|id| id.to_string())
        };
        for good in ["a", "7f1c-12", "4bf92f35-77b3-4da6-a3ce-929d0e0e4736", "a.b:c_D", &"x".repeat(64)] {
            assert_eq!(given(good.as_bytes()).as_deref(), Some(good));
        }
        for bad in ["", " ", "a b", "a\"b", "a=b", "a{b}", "a,b", "a;b", "a\tb", "é", &"x".repeat(65)] {
            assert_eq!(given(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(given(b"\x1b[31m"), None);
        assert_eq!(Id::Made { run: 0xa1, number: 7 }.to_string(), "a1-7");
    }
}
