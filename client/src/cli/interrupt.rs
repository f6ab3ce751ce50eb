//! What ends a command from outside: Ctrl-C, and what a shell, a service manager or a terminal that closes sends.

/// Waits until the command is to end. What it began is undone by whoever waits for this.
#[cfg(unix)]
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};

    let of = |kind| async move {
        match signal(kind) {
            Ok(mut signals) => drop(signals.recv().await),
            // Then the system ends it.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = of(SignalKind::interrupt()) => {}
        () = of(SignalKind::terminate()) => {}
        // Who says nohup wants it to go on.
        () = of(SignalKind::hangup()), if !ignores_hangup() => {}
    }
}

/// Whether whoever started this command has it ignore that its terminal goes.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    const SIGHUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").ok();
    let ignored = status.as_deref().and_then(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    // Default: where nothing tells, a terminal that goes ends nothing.
    ignored.is_none_or(|mask| mask & SIGHUP != 0)
}

/// Waits until the command is to end. What it began is undone by whoever waits for this.
#[cfg(not(unix))]
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
