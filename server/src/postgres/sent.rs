//! Rows on their way to a client, which may take them slowly, or not at all: where they are large they count among the
//! answers that wait.

use bytes::BytesMut;
use tokio_util::sync::CancellationToken;

use super::{
    error::Error,
    portal::{Ends, Under, at_rest, guarded},
    rows,
    session::Session,
    told::as_told,
    wire::{End, Wire},
};
use crate::{limits, sql::bytes_of};

impl Under {
    /// Counts the rows in hand and what is put, once they are large. Where there is no memory for them in time, what is put
    /// behind the first `before` bytes is taken away again.
    pub(super) async fn count_put(
        &mut self,
        wire: &mut Wire,
        in_hand: u64,
        before: usize,
        closing: &CancellationToken,
    ) -> std::result::Result<(), End> {
        // Of each answer there is room for a piece, and whole ones seldom change.
        let piece = limits::ANSWER_MESSAGE_BYTES as u64;
        let bytes = (in_hand + wire.put_bytes() as u64).div_ceil(piece).saturating_sub(1) * piece;
        let Self { counted, cancelled, committing, deadline, .. } = self;
        if bytes == counted.bytes() {
            return Ok(());
        }
        let ends = Ends { cancelled, closing, committing, reads: true };
        let done = guarded(wire, ends, counted.set_by(bytes, *deadline)).await;
        if done.is_err() {
            let output = wire.output();
            *output = BytesMut::from(&output[..before]);
        }
        done
    }

    /// Sends the rows that were put, once there are many. While the client takes none, others may have the place of the
    /// statement.
    pub(super) async fn send_if_full(
        &mut self,
        wire: &mut Wire,
        in_hand: u64,
        before: usize,
        closing: &CancellationToken,
    ) -> std::result::Result<(), End> {
        self.count_put(wire, in_hand, before, closing).await?;
        if !wire.is_full() {
            return Ok(());
        }
        at_rest(wire.flush(), || self.rows.leave()).await?;
        self.count_put(wire, in_hand, 0, closing).await
    }
}

impl Session {
    /// Sends rows; whether there are no more.
    pub(super) async fn rows(
        &mut self,
        under: &mut Under,
        most: Option<u64>,
    ) -> std::result::Result<(u64, bool), End> {
        let Self { shared, wire, .. } = self;
        let mut sent = 0;
        loop {
            let left = most.map_or(u64::MAX, |most| most - sent);
            if let Some((batch, from)) = under.batch.take_if(|_| left > 0) {
                // A piece takes less time than the way to another thread.
                let most = usize::try_from(left).unwrap_or(usize::MAX);
                let before = wire.put_bytes();
                let next = match under.passes {
                    true => batch.num_rows().min(from.saturating_add(most)),
                    false => rows::write(b'D', &batch, &under.columns, from, most, wire.output())?,
                };
                sent += (next - from) as u64;
                under.sent += (next - from) as u64;
                under.batch = (next < batch.num_rows()).then_some((batch, next));
                let in_hand = under.batch.as_ref().map_or(0, |(batch, _)| bytes_of(batch));
                under.send_if_full(wire, in_hand, before, &shared.closing).await?;
                if under.cancelled.is_cancelled() {
                    return Err(Error::cancelled().into());
                }
                continue;
            }
            if left == 0 {
                return Ok((sent, false));
            }
            let (ends, next) = under.next(&shared.closing);
            match guarded(wire, ends, next).await? {
                Some(batch) => {
                    let batch = as_told(batch, &under.columns)?;
                    let put = wire.put_bytes();
                    under.count_put(wire, bytes_of(&batch), put, &shared.closing).await?;
                    under.batch = (batch.num_rows() > 0).then_some((batch, 0));
                }
                None => return Ok((sent, true)),
            }
        }
    }
}
