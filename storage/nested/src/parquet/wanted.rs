//! Whether a file is still wanted by whoever has it read: its pages may be many, and little behind them.

use std::{fmt, sync::Arc};

use parquet::errors::{ParquetError, Result};

use super::limits::PAGES_UNASKED;

/// Says whether a file is still wanted. Where it is not, reading it fails.
#[derive(Clone)]
pub struct Wanted(Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").finish_non_exhaustive()
    }
}

impl Wanted {
    /// As long as this says so.
    pub fn while_true(is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_wanted))
    }

    /// To the end.
    pub fn always() -> Self {
        Self::while_true(|| true)
    }
}

/// Asks that every so many pages.
#[derive(Debug)]
pub(super) struct Asked {
    wanted: Wanted,
    pages: u32,
}

impl Asked {
    pub(super) fn of(wanted: &Wanted) -> Self {
        Self { wanted: wanted.clone(), pages: 0 }
    }

    /// There is another page.
    pub(super) fn page(&mut self) -> Result<()> {
        self.pages += 1;
        if self.pages < PAGES_UNASKED { Ok(()) } else { self.now() }
    }

    /// What comes takes its time.
    pub(super) fn now(&mut self) -> Result<()> {
        self.pages = 0;
        if (self.wanted.0)() {
            Ok(())
        } else {
            Err(ParquetError::General("nobody waits for it any longer".to_owned()))
        }
    }
}
