//! Files that are read again when they change, or when the process is told to: certificates and keys. What is in them
//! counts from then on; a file that is wrong changes nothing, and is an error in the log.

use std::{fs, path::PathBuf, sync::Arc, time::SystemTime};

use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::limits;

/// Something that is made of files.
pub(crate) trait Reload: Send + Sync {
    fn files(&self) -> Vec<PathBuf>;

    /// Reads them again, and says what they are.
    fn reload(&self) -> Result<String, String>;
}

/// By what a change of a file is known. A link counts as what it leads to, so that it may be changed in one step.
type Stamps = Vec<Option<(u64, Option<SystemTime>)>>;

fn stamps(of: &dyn Reload) -> Stamps {
    let stamp = |path: &PathBuf| fs::metadata(path).ok().map(|file| (file.len(), file.modified().ok()));
    of.files().iter().map(stamp).collect()
}

/// Looks at the files from time to time, and whenever `told`.
pub(crate) async fn watch(of: Vec<Arc<dyn Reload>>, told: Arc<Notify>) {
    if of.is_empty() {
        return;
    }
    let mut known: Vec<Stamps> = of.iter().map(|of| stamps(&**of)).collect();
    let mut ticks = interval(limits::RELOAD_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let all = tokio::select! {
            biased;
            () = told.notified() => true,
            _ = ticks.tick() => false,
        };
        for (of, known) in of.iter().zip(&mut known) {
            let mut now = stamps(&**of);
            if !all && now == *known {
                continue;
            }
            // Whoever writes into a file, not beside it, is done when it changes no more: half of it may be a whole one.
            for _ in 0..limits::RELOAD_LOOKS {
                sleep(limits::RELOAD_LOOK).await;
                let before = std::mem::replace(&mut now, stamps(&**of));
                if before == now {
                    break;
                }
            }
            // One that is wrong is not tried again until it changes again.
            *known = now;
            match of.reload() {
                Ok(what) => tracing::info!(what, "read again"),
                Err(error) => tracing::error!(error, "cannot be read again; what was there before stays"),
            }
        }
    }
}
