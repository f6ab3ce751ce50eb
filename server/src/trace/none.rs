//! Spans of a build without the feature `otlp`: there are none.

use std::sync::Arc;

use basalt_core::exec::OperatorUse;

use super::parent::Parent;
use crate::{Config, Error, environment::Environment};

/// Records nothing.
#[derive(Debug)]
pub(super) struct Spans;

impl Spans {
    /// Fails where spans are wanted.
    pub(super) fn open(config: &Config, _: Option<&str>, _: &Arc<dyn Environment>) -> Result<Self, Error> {
        match &config.otlp {
            None => Ok(Self),
            Some(_) => {
                let message =
                    "otlp: this server is built without the feature `otlp`; build it with `--features otlp`";
                Err(Error::Config(message.to_owned()))
            }
        }
    }

    pub(super) fn request(&self, _: &'static str, _: Option<&Parent>) -> Span {
        Span
    }

    #[allow(clippy::unused_async, reason = "with the feature it waits")]
    pub(super) async fn close(&self, _: &dyn Environment) {}
}

/// Nothing.
#[derive(Debug)]
pub(crate) struct Span;

#[allow(clippy::unused_self, reason = "with the feature it records")]
impl Span {
    pub(super) fn none() -> Self {
        Self
    }

    pub(crate) fn is_recorded(&self) -> bool {
        false
    }

    pub(super) fn parent(&self) -> Option<Parent> {
        None
    }

    pub(super) fn child(&self, _: &'static str, _: bool) -> Self {
        Self
    }

    pub(super) fn past(&self, _: &str, _: &OperatorUse) {}

    /// A number that it tells.
    pub(crate) fn count(&self, _: &'static str, _: u64) {}

    /// A text that it tells, made where it is recorded.
    pub(crate) fn text(&self, _: &'static str, _: impl FnOnce() -> String) {}

    /// It failed for a reason.
    pub(crate) fn fail(&self, _: &'static str) {}

    /// It ends now.
    pub(crate) fn end(&self) {}
}
