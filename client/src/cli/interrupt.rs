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
        () = of(SignalKind::hangup()) => {}
    }
}

/// Waits until the command is to end. What it began is undone by whoever waits for this.
#[cfg(not(unix))]
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
