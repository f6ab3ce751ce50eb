//! What the log may have of what clients send. Statements, their literals and rows are the clients', as are the words of
//! errors that tell what was wrong with them: they stand in the log where its owner asks for them, and nowhere else.
//!
//! The log is the process's, and so is this: [`logging::start`](crate::logging::start) says it once.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic::{PanicHookInfo, set_hook, take_hook},
    sync::atomic::{AtomicBool, Ordering},
};

use tonic::Code;

use crate::{Config, call::is_of_operators};

static LITERALS: AtomicBool = AtomicBool::new(false);
static QUERIES: AtomicBool = AtomicBool::new(false);

/// Says what the log may have.
pub(crate) fn allow(config: &Config) {
    LITERALS.store(config.log_literals || config.log_queries, Ordering::Relaxed);
    QUERIES.store(config.log_queries, Ordering::Relaxed);
}

/// Whether literals and rows may stand there.
pub(crate) fn literals() -> bool {
    LITERALS.load(Ordering::Relaxed)
}

/// Whether every query and every request stands there.
pub(crate) fn queries() -> bool {
    QUERIES.load(Ordering::Relaxed)
}

/// The message of an error. One of the client's own repeats what the client has said; one of the server, its store or its
/// load does not, nor does one that says what nobody may do.
pub(crate) fn message(code: Code, message: &str) -> Option<&str> {
    let is_own = is_of_operators(code)
        || matches!(code, Code::Internal | Code::PermissionDenied | Code::Unauthenticated);
    (is_own || literals()).then_some(message)
}

/// Words of a library that may repeat what it was given: their beginning, which says of what kind they are.
pub(crate) fn text(text: &str) -> &str {
    if literals() { text } else { beginning(text) }
}

/// A text as far as it has no values: up to a quote, a number, or what stands behind a colon.
fn beginning(text: &str) -> &str {
    let end = text.find(|c: char| c.is_ascii_digit() || matches!(c, '\'' | '"' | ':' | '(' | '[' | '\n'));
    // Default: there are none.
    text[..end.unwrap_or(text.len())].trim_end_matches([' ', '`'])
}

/// Whether lines of a library may repeat what it was given: those that plan statements, and those that hold rows.
pub(crate) fn is_of_values(target: &str) -> bool {
    const KNOWING: [&str; 4] = ["datafusion", "sqlparser", "arrow", "parquet"];
    KNOWING.iter().any(|name| target.starts_with(name))
}

/// What a panic says may be made of what was being read: where it was, and the beginning, are enough.
pub(crate) fn hush_panics() {
    let others = take_hook();
    set_hook(Box::new(move |panic| if literals() { others(panic) } else { tell(panic) }));
}

fn tell(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let words = words(panic.payload());
    eprintln!("thread '{name}' panicked at {place}:\n{words}");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        eprintln!("{backtrace}");
    }
}

/// The words of a panic. What is not made when it happens is of the source.
pub(crate) fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(fixed), _) => fixed,
        (_, Some(made)) => text(made),
        _ => "without words",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test of this process starts the log.
    #[test]
    fn what_clients_have_said_is_left_out() {
        assert_eq!(message(Code::InvalidArgument, "'secret' is no number"), None);
        assert_eq!(message(Code::OutOfRange, "secret"), None);
        assert_eq!(message(Code::Unavailable, "the store"), Some("the store"));
        for (text, told) in [
            ("Internal error: Failed to coerce Utf8(\"secret\")", "Internal error"),
            ("byte index 3 is not a char boundary; it is inside 'é' of `secret`", "byte index"),
            ("called `Result::unwrap()` on an `Err` value: Secret", "called `Result"),
            ("index out of bounds", "index out of bounds"),
            ("", ""),
        ] {
            assert_eq!(super::text(text), told);
        }
        assert_eq!(words(&"of the source: 'quoted'"), "of the source: 'quoted'");
        assert_eq!(words(&"made of 'secret'".to_owned()), "made of");
        assert!(is_of_values("datafusion_optimizer::utils") && is_of_values("sqlparser::parser"));
        assert!(!is_of_values("basalt_server::call") && !is_of_values("h2::codec"));
    }
}
