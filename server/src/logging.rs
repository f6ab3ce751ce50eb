//! Structured logs on standard error, and the lines of the audit in a file of their own where that is wanted.

use std::{
    fmt::{self as text, Write as _},
    fs::OpenOptions,
    io::{self, IsTerminal as _},
    os::unix::fs::OpenOptionsExt as _,
    sync::Mutex,
};

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::{FilterExt as _, LevelFilter, filter_fn},
    fmt::{
        self, FmtContext,
        format::{FormatEvent, FormatFields, Writer},
    },
    layer::SubscriberExt as _,
    registry::{self, LookupSpan},
    util::SubscriberInitExt as _,
};

use crate::{Config, Error, access::AUDIT, config::LogFormat, logged, trace};

/// Starts logging as the configuration says. Call it once, before [`crate::run`].
///
/// # Errors
/// When the filter or the file of the audit cannot be read, or logging has been started already.
pub fn start(config: &Config) -> Result<(), Error> {
    logged::allow(config);
    logged::hush_panics();
    subscriber(config)?.try_init().map_err(|e| Error::Config(format!("log = {:?}: {e}", config.log)))
}

/// Every filter says up to which level it lets anything through: where one does not, all that libraries tell and trace at
/// their lowest levels, which is much for each request, is made and looked at before it is left out.
fn subscriber(config: &Config) -> Result<impl Subscriber + Send + Sync + use<>, Error> {
    let bad = |e: &dyn std::fmt::Display| Error::Config(format!("log = {:?}: {e}", config.log));
    let filter = EnvFilter::try_new(&config.log).map_err(|e| bad(&e))?;
    let ansi = io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(ansi).with_target(false);
    let lines = match config.log_format {
        LogFormat::Text => lines.map_event_format(|text| OfRequest(text.with_ansi(ansi))).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).map_event_format(OfRequest).boxed(),
    };
    let audit = match &config.audit_log {
        None => None,
        Some(path) => {
            let wrong = |e: io::Error| Error::Config(format!("audit_log: {}: {e}", path.display()));
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(wrong)?;
            let lines = fmt::layer().json().flatten_event(true).with_target(false).with_level(false);
            let lines = lines.map_event_format(OfRequest);
            let of_audit = filter_fn(|of| of.target() == AUDIT).with_max_level_hint(LevelFilter::INFO);
            Some(lines.with_writer(Mutex::new(file)).with_filter(of_audit))
        }
    };
    // What has a file of its own does not stand in the log as well.
    let apart = audit.is_some();
    let values = config.log_literals || config.log_queries;
    let here = move |target: &str| (!apart || target != AUDIT) && (values || !logged::is_of_values(target));
    let here = filter_fn(move |of| here(of.target())).with_max_level_hint(LevelFilter::TRACE);
    Ok(registry::Registry::default().with(lines.with_filter(filter.and(here))).with(audit))
}

/// A format whose lines end with the request that they are about: its id, and the W3C trace that it belongs to.
struct OfRequest<F>(F);

impl<S, N, F> FormatEvent<S, N> for OfRequest<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> text::Result {
        let Some(trace) = trace::current() else { return self.0.format_event(context, writer, event) };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        writer.write_str(&ended(line, &trace.id().to_string(), trace.trace_id())?)
    }
}

/// A line, of text or of JSON, with an id and a trace at its end. Neither has signs that mean something there.
fn ended(mut line: String, id: &str, trace: Option<u128>) -> Result<String, text::Error> {
    line.truncate(line.trim_end_matches('\n').len());
    let is_json = line.starts_with('{') && line.ends_with('}');
    if is_json {
        line.pop();
        write!(line, ",\"request_id\":\"{id}\"")?;
        trace.map_or(Ok(()), |trace| write!(line, ",\"trace_id\":\"{trace:032x}\""))?;
        line.push('}');
    } else {
        write!(line, " request_id={id}")?;
        trace.map_or(Ok(()), |trace| write!(line, " trace_id={trace:032x}"))?;
    }
    line.push('\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_wants_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Some(folder.path().join("audit.jsonl"));
        for (log, audit_log, most) in [
            ("warn", None, LevelFilter::WARN),
            ("warn", audit.clone(), LevelFilter::INFO),
            ("info,basalt_server=debug", audit, LevelFilter::DEBUG),
        ] {
            let config = Config { log: log.into(), audit_log, ..Config::default() };
            assert_eq!(subscriber(&config).unwrap().max_level_hint(), Some(most), "{log}");
        }
    }

    #[test]
    fn lines_end_with_their_request() {
        let line = |text: &str, trace| ended(text.to_owned(), "a1-7", trace).unwrap();
        assert_eq!(line("INFO it is so\n", None), "INFO it is so request_id=a1-7\n");
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let number = u128::from_str_radix(trace, 16).unwrap();
        let json = line("{\"message\":\"it is {so}\"}\n", Some(number));
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read["request_id"], &read["trace_id"]), (&"a1-7".into(), &trace.into()));
        assert!(json.ends_with("}\n") && json.matches('\n').count() == 1);
    }
}
