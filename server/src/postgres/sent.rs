//! Rows on their way to a client, which may take them slowly, or not at all: where they are large they count among the
//! answers that wait.

use tokio::time::Duration;

use super::{
    error::Error,
    portal::{Under, at_rest, guarded},
    rows,
    session::Session,
    told::as_told,
    wire::{End, Wire},
};
use crate::{limits, sql::bytes_of};

impl Under {
    /// Counts the rows in hand and what is put, once they are large; for how long the client may take nothing of them. They are
    /// there, and only sending gives their memory back: where there is none to count them they are sent all the same, to a client
    /// that takes them promptly.
    fn count_put(&mut self, wire: &Wire, in_hand: u64) -> Duration {
        // Of each answer there is room for a piece, and whole ones seldom change.
        let piece = limits::ANSWER_MESSAGE_BYTES as u64;
        let bytes = (in_hand + wire.put_bytes() as u64).div_ceil(piece).saturating_sub(1) * piece;
        match bytes == self.counted.bytes() || self.counted.set(bytes).is_ok() {
            true => limits::STALLED_TIMEOUT,
            false => limits::UNCOUNTED_STALLED_TIMEOUT,
        }
    }

    /// Sends the rows that were put, once there are many. While the client takes none, others may have the place of the
    /// statement.
    pub(super) async fn send_if_full(
        &mut self,
        wire: &mut Wire,
        in_hand: u64,
    ) -> std::result::Result<(), End> {
        let patience = self.count_put(wire, in_hand);
        if wire.is_full() {
            at_rest(wire.flush_within(patience), || self.rows.leave()).await?;
            self.count_put(wire, in_hand);
        }
        Ok(())
    }
}

impl Session {
    /// Sends rows; whether there are no more.
    pub(super) async fn rows(
        &mut self,
        under: &mut Under,
        most: Option<u64>,
    ) -> std::result::Result<(u64, bool), End> {
        let Self { shared, wire, writes_follow, .. } = self;
        let mut sent = 0;
        loop {
            let left = most.map_or(u64::MAX, |most| most - sent);
            if let Some((batch, from)) = under.batch.take_if(|_| left > 0) {
                // A piece takes less time than the way to another thread.
                let most = usize::try_from(left).unwrap_or(usize::MAX);
                let next = match under.passes {
                    true => batch.num_rows().min(from.saturating_add(most)),
                    false => rows::write(b'D', &batch, &under.columns, from, most, wire.output())?,
                };
                sent += (next - from) as u64;
                under.sent += (next - from) as u64;
                under.batch = (next < batch.num_rows()).then_some((batch, next));
                let in_hand = under.batch.as_ref().map_or(0, |(batch, _)| bytes_of(batch));
                under.send_if_full(wire, in_hand).await?;
                if under.cancelled.is_cancelled() {
                    return Err(Error::cancelled().into());
                }
                continue;
            }
            if left == 0 {
                return Ok((sent, false));
            }
            let (ends, next) = under.next(&shared.closing, *writes_follow);
            match guarded(wire, ends, next).await? {
                Some(batch) => {
                    let batch = as_told(batch, &under.columns)?;
                    under.batch = (batch.num_rows() > 0).then_some((batch, 0));
                }
                None => return Ok((sent, true)),
            }
        }
    }
}
