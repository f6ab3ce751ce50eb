//! W3C Trace Context: which span of which trace asked for a request, as headers tell (`traceparent`, `tracestate`).

use hyper::HeaderMap;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};

use crate::limits;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The flags that mean something: that the trace is sampled, and that its id is random.
const FLAGS: u8 = 0x03;
#[cfg(test)]
const SAMPLED: u8 = 0x01;

/// A span elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) flags: u8,
    /// What tracing systems have added, as it came.
    pub(super) state: Option<Box<str>>,
}

impl Parent {
    /// What headers say. What breaks the rules is ignored as a whole, as the recommendation wants it: whoever sends it
    /// begins a trace of its own.
    pub(super) fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = Self::parse(parents.next()?.as_bytes()).filter(|_| parents.next().is_none())?;
        Some(Self { state: state(headers), ..parent })
    }

    /// What the comment of a statement says, as sqlcommenter writes it: `/*traceparent='00-...-01'*/`.
    #[cfg(feature = "sql")]
    pub(super) fn of_statement(sql: &str) -> Option<Self> {
        let (_, comment) = sql.rsplit_once("/*")?;
        let (_, value) = comment.split_once("traceparent='")?;
        Self::parse(value.split('\'').next()?.as_bytes())
    }

    /// Reads a `traceparent`: version, trace, span and flags, each of so many digits, of which letters are small.
    fn parse(text: &[u8]) -> Option<Self> {
        let field = |from: usize, to: usize| -> Option<u128> {
            let is_first = from == 0;
            if !is_first && text.get(from - 1) != Some(&b'-') {
                return None;
            }
            text.get(from..to)?.iter().try_fold(0, |value, digit| match digit {
                b'0'..=b'9' => Some(value << 4 | u128::from(digit - b'0')),
                b'a'..=b'f' => Some(value << 4 | u128::from(digit - b'a' + 10)),
                _ => None,
            })
        };
        let version = field(0, 2)?;
        let (trace, span, flags) = (field(3, 35)?, field(36, 52)?, field(53, 55)?);
        let is_whole = match version {
            0xff => false,
            0 => text.len() == 55,
            // Later versions may say more behind what is known.
            _ => text.len() == 55 || text.get(55) == Some(&b'-'),
        };
        let (span, flags) = (u64::try_from(span).ok()?, u8::try_from(flags).ok()?);
        (is_whole && trace != 0 && span != 0).then_some(Self {
            trace,
            span,
            flags: flags & FLAGS,
            state: None,
        })
    }

    /// Whether whoever asked has its spans recorded.
    #[cfg(test)]
    fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// As it travels.
    pub(super) fn text(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }

    pub(super) fn send(&self, metadata: &mut MetadataMap) {
        if let Ok(value) = AsciiMetadataValue::try_from(self.text()) {
            metadata.insert(TRACEPARENT, value);
        }
        if let Some(Ok(value)) = self.state.as_deref().map(AsciiMetadataValue::try_from) {
            metadata.insert(TRACESTATE, value);
        }
    }
}

/// The lists of `tracestate`, one behind the other; one that is too long or has other signs than it may is left out.
fn state(headers: &HeaderMap) -> Option<Box<str>> {
    let mut all = String::new();
    for value in headers.get_all(TRACESTATE) {
        let text = value.to_str().ok()?.trim();
        if all.len() + text.len() >= limits::TRACE_STATE_BYTES {
            return None;
        }
        if !(all.is_empty() || text.is_empty()) {
            all.push(',');
        }
        all.push_str(text);
    }
    (!all.is_empty()).then(|| all.into())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(all: &[(&'static str, &[u8])]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_bytes(value).unwrap()))
            .collect()
    }

    #[test]
    fn what_is_valid_is_read_and_written_again() {
        let parent = Parent::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(parent.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((parent.span, parent.is_sampled()), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(parent.text(), GOOD);
        let not_sampled = GOOD.replace("-01", "-00");
        assert!(!Parent::parse(not_sampled.as_bytes()).unwrap().is_sampled());
        // Flags that nobody knows yet go no further.
        assert_eq!(Parent::parse(GOOD.replace("-01", "-fd").as_bytes()).unwrap().text(), GOOD);
        // A later version may say more.
        for later in [GOOD.replacen("00", "cc", 1), GOOD.replacen("00", "01", 1) + "-what-the-future-says"] {
            assert_eq!(Parent::parse(later.as_bytes()).unwrap().text(), GOOD);
        }
    }

    #[test]
    fn what_breaks_a_rule_is_ignored() {
        let mut hostile = vec![
            String::new(),
            "00".to_owned(),
            GOOD.to_uppercase(),
            GOOD.replacen("00", "ff", 1),
            format!("{GOOD}-more"),
            format!("{GOOD} "),
            format!(" {GOOD}"),
            format!("01{}.", &GOOD[2..]),
            GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            GOOD.replace('-', "_"),
            "-".repeat(55),
            "é".repeat(28),
            "0".repeat(100_000),
        ];
        hostile.extend((0..GOOD.len()).map(|end| GOOD[..end].to_owned()));
        hostile.extend((0..GOOD.len()).map(|at| format!("{}+{}", &GOOD[..at], &GOOD[at + 1..])));
        for text in hostile {
            assert_eq!(Parent::parse(text.as_bytes()), None, "{text:?}");
        }
        let good = GOOD.as_bytes();
        assert!(Parent::of_headers(&headers(&[("traceparent", good)])).is_some());
        assert_eq!(Parent::of_headers(&headers(&[("traceparent", good), ("traceparent", good)])), None);
        assert_eq!(Parent::of_headers(&headers(&[("traceparent", b"\xff\xfe")])), None);
        assert_eq!(Parent::of_headers(&HeaderMap::new()), None);
    }

    #[test]
    fn the_state_of_other_systems_goes_on_where_it_is_short_and_plain() {
        let state = |values: &[&[u8]]| {
            let mut all = vec![("traceparent", GOOD.as_bytes())];
            all.extend(values.iter().map(|value| ("tracestate", *value)));
            Parent::of_headers(&headers(&all)).unwrap().state
        };
        assert_eq!(state(&[b"a=1,b=2", b" c=3"]).as_deref(), Some("a=1,b=2,c=3"));
        assert_eq!(state(&[]), None);
        assert_eq!(state(&[b"a=\xff"]), None);
        assert_eq!(state(&["a".repeat(limits::TRACE_STATE_BYTES + 1).as_bytes()]), None);
    }

    #[cfg(feature = "sql")]
    #[test]
    fn the_comment_of_a_statement_tells_its_parent() {
        let sql = format!("SELECT 1 /*action='a',traceparent='{GOOD}'*/");
        assert_eq!(Parent::of_statement(&sql).unwrap().text(), GOOD);
        for sql in ["SELECT 1", "SELECT 'traceparent=''x'''", "/*traceparent='", "/*traceparent='00-1-2-3'*/"]
        {
            assert_eq!(Parent::of_statement(sql), None, "{sql}");
        }
    }
}
