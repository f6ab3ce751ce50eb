//! Who may be called back. A node that asks for this one's status names itself, and is asked in turn; without certificates
//! anybody may name anything, and a caller must not choose whom this node connects to. So a name that nobody has configured
//! is believed where it is that of the address which the call came from, and is asked there and nowhere else, whatever the
//! name means later.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use basalt_proto::v1::ErrorReason;
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    environment::Environment,
    limits,
    moment::Moment,
    status::{RequestError, Result},
};

/// See the module.
#[derive(Debug)]
pub(super) struct Callers {
    environment: Arc<dyn Environment>,
    /// Names that are looked up at once: each is a question to others, too.
    lookups: Semaphore,
    /// When one was turned away last.
    refused: Mutex<Option<Moment>>,
}

impl Callers {
    pub(super) fn new(environment: Arc<dyn Environment>) -> Self {
        Self { environment, lookups: Semaphore::new(limits::CALLER_LOOKUPS), refused: Mutex::default() }
    }

    /// Where the node is that has called from an address by a name.
    ///
    /// # Errors
    /// The name is of another address, or of none that is known in time.
    pub(super) async fn place(&self, node: &str, from: IpAddr) -> Result<SocketAddr> {
        let addresses = match node.parse::<SocketAddr>() {
            Ok(address) => Ok(vec![address]),
            Err(_) => self.look_up(node).await,
        };
        let is_from = |address: &SocketAddr| address.ip().to_canonical() == from.to_canonical();
        match addresses.map(|addresses| addresses.into_iter().find(is_from)) {
            Ok(Some(address)) => Ok(address),
            Ok(None) => Err(self.refuse(RequestError::new(
                ErrorReason::PermissionDenied,
                format!(
                    "{node:?} is not where this call comes from, and nobody has configured it: name it among `peers`, or have \
                     nodes show certificates"
                ),
            ))),
            Err(error) => Err(self.refuse(error)),
        }
    }

    async fn look_up(&self, node: &str) -> Result<Vec<SocketAddr>> {
        let unknown = || {
            let message = format!("the name {node:?} is not known here, or not in time");
            RequestError::new(ErrorReason::PermissionDenied, message).retryable()
        };
        let _permit = self.lookups.try_acquire().map_err(|_| unknown())?;
        let found = timeout(limits::STATUS_TIMEOUT, self.environment.lookup(node)).await;
        found.map_err(|_| unknown())?.map_err(|_| unknown())
    }

    fn refuse(&self, error: RequestError) -> RequestError {
        self.has_no_place();
        error
    }

    /// One was turned away, who may be a node nevertheless, and acknowledge commits that this one does not hear of. As long as
    /// it is there it asks again.
    pub(super) fn has_no_place(&self) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Moment::now(&*self.environment));
    }

    /// Whether one was turned away of late.
    pub(super) fn has_refused(&self) -> bool {
        let refused = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_some_and(|at| at.is_within(limits::REFUSED_FOR, &*self.environment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::process;

    #[tokio::test]
    async fn a_name_is_that_of_where_the_call_comes_from() {
        let callers = Callers::new(process());
        let from = |text: &str| text.parse::<IpAddr>().unwrap();
        for (node, address) in [
            ("10.0.0.7:7701", "10.0.0.7"),
            ("10.0.0.7:7701", "::ffff:10.0.0.7"),
            ("[::1]:7701", "::1"),
            ("localhost:7701", "127.0.0.1"),
        ] {
            let place = callers.place(node, from(address)).await.unwrap();
            assert_eq!((place.ip().to_canonical(), place.port()), (from(address).to_canonical(), 7701));
        }
        assert!(!callers.has_refused());
        for (node, address) in [
            ("10.0.0.8:7701", "10.0.0.7"),
            ("169.254.169.254:80", "127.0.0.1"),
            ("localhost:7701", "10.0.0.7"),
            ("no-such-name.invalid:7701", "10.0.0.7"),
        ] {
            let error = callers.place(node, from(address)).await.unwrap_err();
            assert_eq!(error.reason(), "PERMISSION_DENIED", "{node}");
        }
        assert!(callers.has_refused());
        // Whoever asked long ago, and does so no longer, is gone.
        *callers.refused.lock().unwrap() = Some(Moment::default());
        assert!(!callers.has_refused());
    }
}
