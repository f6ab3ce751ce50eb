//! What the process has, as the system counts it: the pool's own counts are of what was reserved, and some things take
//! more for a moment, or stay with the allocator for a while after they were given back.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    sync::Arc,
    thread,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::{class::Class, limits, state::State};

/// Tells the pool again and again, as long as there is one, what the process has beyond its counts. Only for a process
/// that is one server and nothing else. Where the system does not say, nothing is told.
pub(crate) fn watch(state: &State) {
    let pool = Arc::downgrade(&state.memory);
    let Ok(file) = File::open("/proc/self/statm") else { return };
    let page = rustix::param::page_size() as u64;
    let watch = move || {
        while let Some(pool) = pool.upgrade() {
            let Some(pages) = anonymous_pages(&file) else { return };
            pool.count_process(pages.saturating_mul(page));
            drop(pool);
            thread::sleep(limits::PROCESS_INTERVAL);
        }
    };
    if let Err(error) = state.environment.thread("basalt-memory", Class::Short, Box::new(watch)) {
        tracing::warn!(%error, "no thread that looks at the process's memory");
    }
}

/// How a server is called that has no cluster: by its machine and the port of its clients. Where the machine does not say how
/// it is called, the port alone tells servers apart that run there.
pub(crate) fn name(port: u16) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname");
    let host = host.ok().map(|host| host.trim().to_owned());
    let is_name = |host: &String| {
        !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
    };
    // Default: a system that has no such file, or a name that is none.
    let host = host.filter(is_name).unwrap_or_else(|| "localhost".to_owned());
    format!("{host}:{port}")
}

/// Has certificates and keys read again at SIGHUP, as one tells a server to.
pub(crate) fn reload_on_hangup(state: &State) {
    let reload = Arc::clone(&state.reload);
    match signal(SignalKind::hangup()) {
        Ok(mut hangups) => drop(tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                reload.notify_one();
            }
        })),
        Err(error) => tracing::warn!(%error, "SIGHUP will end the process"),
    }
}

/// Pages that are resident and not shared with a file.
fn anonymous_pages(statm: &File) -> Option<u64> {
    let mut bytes = [0; 128];
    let n = statm.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(bytes.get(..n)?).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (resident, shared) = (numbers.nth(1)?.ok()?, numbers.next()?.ok()?);
    Some(resident.saturating_sub(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_takes_is_seen() {
        let statm = File::open("/proc/self/statm").unwrap();
        // Other tests run beside this one, and may give back meanwhile what they had; what a try has taken is kept, as the next
        // one would be given it again.
        let mut all = Vec::new();
        let mut tries = (0..6).map(|_| {
            let before = anonymous_pages(&statm).unwrap();
            all.push(vec![7_u8; 256 << 20]);
            let after = anonymous_pages(&statm).unwrap();
            assert!(all.last().unwrap().iter().all(|byte| *byte == 7));
            after.saturating_sub(before) * rustix::param::page_size() as u64
        });
        assert!(tries.any(|bytes| bytes > 200 << 20));
    }
}
