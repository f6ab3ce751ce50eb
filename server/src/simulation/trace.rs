//! What has happened in a simulation, in its order: as a hash, by which two runs are told to be the same, and in words if
//! `BASALT_TRACE` names a file for them.

use std::{
    fs::File,
    io::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use twox_hash::XxHash3_64;

/// See the module. A clone is the same trace.
#[derive(Clone, Debug)]
pub(super) struct Trace(Arc<Mutex<(u64, Option<File>)>>);

impl Trace {
    pub(super) fn new() -> Self {
        let file = std::env::var_os("BASALT_TRACE").map(|path| File::create(path).unwrap());
        Self(Arc::new(Mutex::new((0, file))))
    }

    pub(super) fn add(&self, at: Duration, what: &str) {
        let line = format!("{:>7} {what}\n", at.as_millis());
        let mut trace = self.0.lock().unwrap();
        trace.0 = XxHash3_64::oneshot_with_seed(trace.0, line.as_bytes());
        if let Some(file) = &mut trace.1 {
            file.write_all(line.as_bytes()).unwrap();
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.0.lock().unwrap().0
    }
}
