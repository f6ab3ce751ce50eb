//! Bodies on their way out.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::Body;
use hyper::body::{Bytes, Frame, SizeHint};

use super::routes::Place;
use crate::{
    pace::Paced,
    trace::{Entered, Trace},
};

/// A body, and the place of its request until it has left.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) body: Paced<Body>,
    pub(super) _place: Arc<Place>,
    /// The request, which is entered while this is polled.
    pub(super) trace: Option<Arc<Trace>>,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let _entered = Entered::new(self.trace.clone());
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
