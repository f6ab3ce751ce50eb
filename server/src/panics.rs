//! A panic is a bug of the server, and an error of the one request that met it: the request hears that the server
//! failed, the log has the rest, and everybody else is served on.
//!
//! What a job owns is dropped when it panics, its permit and its memory among it. What it shares with others is changed
//! by commits alone, each at one moment; mutexes are taken over as they are.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

use futures_util::FutureExt as _;

use crate::{
    logged,
    status::{RequestError, Result},
};

/// Runs a job; a panic in it is its error.
pub(crate) fn caught<T>(job: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(error(&*panic)))
}

/// The same for what waits.
pub(crate) async fn caught_async<T>(job: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(job).catch_unwind().await.unwrap_or_else(|panic| Err(error(&*panic)))
}

thread_local! {
    /// What panics on this thread now, a library does of what it was given to read.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// Has a library read what a client has sent; `None`: it panicked, which libraries do of what they did not think of. That is
/// an error of the client's, and nobody else hears of it, so that no client fills the log.
pub(crate) fn reading<T>(read: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    let set = || {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_READING.get() {
                others(panic);
            }
        }));
    };
    // Who fuzzes hears of every panic.
    if !cfg!(fuzzing) {
        HOOK.call_once(set);
    }
    let before = IS_READING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(read)).ok();
    IS_READING.set(before);
    done
}

/// The error of a panic, which goes to the log; where it was, the panic hook has told.
pub(crate) fn error(panic: &(dyn Any + Send)) -> RequestError {
    tracing::error!(panic = logged::words(panic), "a request panicked");
    RequestError::internal()
}

/// Panics where a test wants it: at a place, for the table `panics_PLACE`, in a process that has `BASALT_PANICS` among
/// its variables; for the table `panics_once_PLACE` the first time alone. There is nothing of it in a release build.
#[cfg(debug_assertions)]
#[allow(clippy::panic, reason = "it is what this is for")]
pub(crate) fn wanted(place: &str, table: &str) {
    use std::sync::{LazyLock, Mutex, PoisonError};

    static WANTED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("BASALT_PANICS").is_some());
    static DONE: Mutex<Vec<String>> = Mutex::new(Vec::new());

    let Some(rest) = table.strip_prefix("panics_").filter(|_| *WANTED) else { return };
    let is_first = || {
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = !done.iter().any(|known| known == table);
        done.push(table.to_owned());
        is_first
    };
    let fires = match rest.strip_prefix("once_") {
        Some(once) => once == place && is_first(),
        None => rest == place,
    };
    if fires {
        panic!("wanted at {place}");
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn wanted(_: &str, _: &str) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let told = caught(|| -> Result<()> { panic!("here") }).unwrap_err();
        assert_eq!((told.reason(), told.message()), ("INTERNAL", RequestError::internal().message()));
        assert!(told.message().contains("failed on this request"));
        let told =
            caught_async(async { [Ok(()), Ok(())][std::hint::black_box(2)].clone() }).await.unwrap_err();
        assert_eq!(told.reason(), "INTERNAL");
        assert_eq!(caught(|| Ok(7)).unwrap(), 7);
        assert_eq!(
            caught(|| -> Result<()> { Err(RequestError::deadline()) }).unwrap_err().reason(),
            "DEADLINE_EXCEEDED"
        );
    }

    #[test]
    #[allow(clippy::panic, reason = "it is what this is about")]
    fn what_a_library_cannot_read_is_no_panic_of_ours() {
        assert_eq!(reading(|| 7), Some(7));
        let read = || -> u32 { panic!("of what a client has sent") };
        assert_eq!(reading(|| (reading(read), IS_READING.get())), Some((None, true)));
        assert!(!IS_READING.get());
    }
}
