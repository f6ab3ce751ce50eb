//! Room for requests, and who of them makes some for others.
//!
//! Where there is no more, the request makes room whose client has been waited for the longest, however many bytes have come
//! meanwhile: some hundred clients that send a byte a second keep nobody out.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// See the module.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    /// Who has been waited for less long makes no room.
    least: Duration,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    taken: usize,
    by_number: BTreeMap<u64, Known>,
}

#[derive(Debug)]
struct Known {
    size: usize,
    /// Since when its client has been waited for; `None`: we are at work on what has come.
    since: Option<Instant>,
    given_up: Arc<Notify>,
}

impl Room {
    pub(super) fn new(most: usize, least: Duration) -> Arc<Self> {
        Arc::new(Self { most, least, all: Mutex::default() })
    }

    /// Takes so much of it; `None`: there is no more, and nobody to make some.
    pub(super) fn enter(self: &Arc<Self>, size: usize) -> Option<Share> {
        let mut all = self.all();
        if !all.make(size, self, None) {
            return None;
        }
        let (number, given_up) = (all.next, Arc::new(Notify::new()));
        all.next += 1;
        all.taken += size;
        all.by_number.insert(number, Known { size, since: None, given_up: Arc::clone(&given_up) });
        drop(all);
        Some(Share { room: Arc::clone(self), number, given_up })
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    /// Makes room for so much more; `except` keeps its own. Whether there is now.
    fn make(&mut self, more: usize, room: &Room, except: Option<u64>) -> bool {
        while self.taken + more > room.most {
            let now = Instant::now();
            let waiting = self.by_number.iter().filter_map(|(number, known)| {
                let since = known.since.filter(|_| Some(*number) != except)?;
                (now.saturating_duration_since(since) >= room.least).then_some((since, *number))
            });
            let Some((_, oldest)) = waiting.min() else { return false };
            if let Some(known) = self.remove(oldest) {
                known.given_up.notify_one();
            }
        }
        true
    }

    /// Has one of them take so much, if it is more than it has. Whether there is room.
    fn grow(&mut self, number: u64, size: usize, room: &Room) -> bool {
        let Some(more) = self.by_number.get(&number).map(|known| size.saturating_sub(known.size)) else {
            return false;
        };
        if !self.make(more, room, Some(number)) {
            return false;
        }
        if let Some(known) = self.by_number.get_mut(&number) {
            known.size += more;
            self.taken += more;
        }
        true
    }

    fn remove(&mut self, number: u64) -> Option<Known> {
        let known = self.by_number.remove(&number)?;
        self.taken -= known.size;
        Some(known)
    }
}

/// What one request takes of the room, until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    room: Arc<Room>,
    number: u64,
    given_up: Arc<Notify>,
}

impl Share {
    /// Takes so much, if it is more than it has; `false`: there is no room for it, or others have its own.
    pub(super) fn grow(&self, size: usize) -> bool {
        self.room.all().grow(self.number, size, &self.room)
    }

    /// Waits for the client; `None`: others have the room meanwhile.
    pub(super) async fn wait<T>(&self, client: impl Future<Output = T>) -> Option<T> {
        self.set_since(Some(Instant::now()));
        let done = tokio::select! {
            biased;
            done = pin!(client) => Some(done),
            () = self.given_up.notified() => None,
        };
        if self.set_since(None) { done } else { None }
    }

    /// Whether it is still there.
    fn set_since(&self, since: Option<Instant>) -> bool {
        match self.room.all().by_number.get_mut(&self.number) {
            Some(known) => {
                known.since = since;
                true
            }
            None => false,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.all().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::{task::JoinHandle, time::advance};

    use super::*;

    /// Has it wait for a client that says nothing, from now on.
    async fn fall_silent(share: Share) -> JoinHandle<Option<()>> {
        let waiting = tokio::spawn(async move { share.wait(pending()).await });
        tokio::task::yield_now().await;
        advance(Duration::from_millis(10)).await;
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_been_waited_for_the_longest_makes_room() {
        let room = Room::new(4, Duration::ZERO);
        let at_work = room.enter(1).unwrap();
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.push(fall_silent(room.enter(1).unwrap()).await);
        }
        let new = room.enter(1).unwrap();
        assert_eq!(silent.remove(0).await.unwrap(), None);
        // What grows keeps its own, and has others go for the rest.
        assert!(new.grow(2) && new.grow(1));
        assert_eq!(silent.remove(0).await.unwrap(), None);
        assert!(!new.grow(5), "one is at work");
        assert_eq!(silent.remove(0).await.unwrap(), None);
        assert!(new.grow(3) && room.enter(1).is_none());
        assert_eq!((at_work.wait(ready(1)).await, new.wait(ready(2)).await), (Some(1), Some(2)));
        drop((at_work, new));
        assert_eq!(room.all().taken, 0);
        assert!(room.enter(4).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_makes_room_before_its_time() {
        let room = Room::new(1, Duration::from_secs(1));
        let silent = fall_silent(room.enter(1).unwrap()).await;
        assert!(room.enter(1).is_none());
        advance(Duration::from_secs(1)).await;
        let _new = room.enter(1).unwrap();
        assert_eq!(silent.await.unwrap(), None);
    }
}
