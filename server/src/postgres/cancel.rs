//! By which secret a connection's statement is cancelled from another connection.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::environment::Environment;

/// The key of each connection, and its statements, by the number that it has for its client.
type ByProcess = HashMap<i32, (Vec<u8>, Arc<Statements>)>;

/// The keys of all connections.
#[derive(Debug, Default)]
pub(super) struct Keys(Mutex<ByProcess>);

/// The statement of a connection that runs.
#[derive(Debug, Default)]
pub(super) struct Statements(Mutex<CancellationToken>);

/// A connection's key, while it is open. The number is as little known to others as the secret.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) number: i32,
    pub(super) secret: Vec<u8>,
    statements: Arc<Statements>,
    keys: Arc<Keys>,
}

impl Statements {
    fn token(&self) -> MutexGuard<'_, CancellationToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    fn all(&self) -> MutexGuard<'_, ByProcess> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key with a secret of so many bytes, 32 at most.
    pub(super) fn open(self: &Arc<Self>, environment: &dyn Environment, bytes: usize) -> Key {
        let random = || environment.random().to_be_bytes();
        let mut secret = [random(), random()].concat();
        secret.truncate(bytes);
        let statements: Arc<Statements> = Arc::default();
        let mut all = self.all();
        let number = loop {
            let [a, b, c, d, ..] = random();
            let number = i32::from_be_bytes([a, b, c, d]) & i32::MAX;
            if number != 0 && !all.contains_key(&number) {
                break number;
            }
        };
        all.insert(number, (secret.clone(), Arc::clone(&statements)));
        Key { number, secret, statements, keys: Arc::clone(self) }
    }

    /// Cancels what runs on the connection that has this key; whether there is one, nobody is told.
    pub(super) fn cancel(&self, number: i32, secret: &[u8]) {
        let all = self.all();
        let Some((own, statements)) = all.get(&number) else { return };
        // In the same time, whichever byte differs.
        let differs = own.iter().zip(secret).fold(0, |differs, (a, b)| differs | (a ^ b));
        if own.len() == secret.len() && differs == 0 {
            statements.token().cancel();
        }
    }
}

impl Key {
    /// A statement begins: what was cancelled before does not concern it.
    pub(super) fn begin(&self) -> CancellationToken {
        let mut token = self.statements.token();
        *token = CancellationToken::new();
        token.clone()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.keys.all().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::process;

    #[test]
    fn nobody_cancels_without_the_whole_secret() {
        let keys: Arc<Keys> = Arc::default();
        let (key, other) = (keys.open(&*process(), 4), keys.open(&*process(), 32));
        assert_eq!((key.secret.len(), other.secret.len()), (4, 32));
        let (token, of_other) = (key.begin(), other.begin());
        keys.cancel(key.number, b"");
        keys.cancel(key.number, &key.secret[..3]);
        keys.cancel(key.number, &[key.secret.clone(), vec![0]].concat());
        keys.cancel(key.number, &key.secret.iter().map(|byte| byte ^ 1).collect::<Vec<_>>());
        keys.cancel(other.number, &key.secret);
        assert!(!token.is_cancelled() && !of_other.is_cancelled());
        keys.cancel(key.number, &key.secret);
        assert!(token.is_cancelled() && !of_other.is_cancelled());
        assert!(!key.begin().is_cancelled(), "the next statement");
        let (number, secret) = (other.number, other.secret.clone());
        drop(other);
        keys.cancel(number, &secret);
        assert!(!of_other.is_cancelled());
        assert_eq!(keys.all().len(), 1);
    }
}
