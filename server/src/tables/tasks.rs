//! Tasks of tables that no request waits for. They end before the process does: the end of its runtime cuts off calls to the
//! store, which whoever waits for them takes for a store that failed.

use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::limits;

/// The tasks, and that they are over.
#[derive(Debug, Default)]
pub(super) struct Background {
    tasks: TaskTracker,
    over: CancellationToken,
}

impl Background {
    /// A task that ends, wherever it waits, when all of them are over.
    pub(super) fn until_over<F>(&self, task: F) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Future<Output = ()> + Send,
    {
        let over = self.over.clone();
        self.tasks.track_future(async move {
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = task => {}
            }
        })
    }

    /// Begins such a task.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(self.until_over(task));
    }

    /// Begins a task that ends what it has begun: it looks itself whether all are over.
    pub(super) fn spawn_to_its_end<F>(&self, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task(self.over.clone()));
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Ends all, and those that are begun from now on.
    pub(super) async fn end(&self) {
        self.over.cancel();
        self.tasks.close();
        if timeout(limits::CLOSE_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::debug!(tasks = self.tasks.len(), "work in the background is cut off");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn all_have_ended_when_that_is_said() {
        let background = Background::default();
        let (held, left) = oneshot::channel::<()>();
        background.spawn(async move {
            let _held = held;
            pending().await
        });
        let (told, ended) = oneshot::channel();
        background.spawn_to_its_end(|over| async move {
            over.cancelled().await;
            tokio::task::yield_now().await;
            told.send(7).unwrap();
        });
        background.end().await;
        assert_eq!((ended.await.ok(), left.await.is_err()), (Some(7), true));
        let (held, left) = oneshot::channel::<()>();
        background.spawn(async move {
            let _held = held;
            pending().await
        });
        assert!(left.await.is_err(), "one that is begun later ends as well");
    }
}
