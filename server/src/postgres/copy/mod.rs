//! COPY between a statement and the client: `FROM STDIN` asks it for rows, `TO STDOUT` sends them.

mod binary;
mod out;

use std::pin::pin;

use basalt_sql::{
    CopyForm, CopyFormat,
    script::{Copies, Part},
};
use bytes::{Bytes, BytesMut};
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};

use super::{
    error::{Error, Result},
    portal::{Ends, Under, guarded},
    rows,
    session::Session,
    wire::{End, Frontend, Wire},
};
use crate::{
    memory::{Consumer, Reservation},
    panics::caught_async,
    sql::{Copying, Sender, bytes_of},
    status::RequestError,
};
use binary::Binary;

/// Whether a statement asks the client for rows.
pub(super) fn copies_in(part: &Part) -> bool {
    part.copies() == Some(Copies::In)
}

/// Whether it sends it rows as a COPY does.
pub(super) fn copies_out(part: &Part) -> bool {
    part.copies() == Some(Copies::Out)
}

/// The rows that a client is about to send.
#[derive(Debug)]
pub(super) struct Rows {
    sender: Sender,
    /// Where they come in binary form.
    binary: Option<Binary>,
    /// What is kept of them.
    kept: Reservation,
}

/// What a message brings.
enum Brought {
    /// Text that is given on.
    Text(Bytes),
    End,
}

impl Rows {
    fn take(&mut self, message: Result<Frontend>, tag: u8) -> std::result::Result<Brought, End> {
        match message? {
            Frontend::CopyData(bytes) => match &mut self.binary {
                None => Ok(Brought::Text(bytes)),
                Some(binary) => {
                    let mut text = BytesMut::new();
                    binary.push(&bytes, &mut text)?;
                    self.kept.set((binary.kept() + text.len()) as u64).map_err(Error::from)?;
                    Ok(Brought::Text(text.freeze()))
                }
            },
            Frontend::CopyDone => {
                self.binary.as_ref().map_or(Ok(()), Binary::finish)?;
                Ok(Brought::End)
            }
            Frontend::CopyFail(why) => {
                Err(Error::new("57014", format!("COPY from stdin failed: {why}")).into())
            }
            // Clients send these behind a statement before they know that it is a COPY.
            Frontend::Flush | Frontend::Sync => Ok(Brought::Text(Bytes::new())),
            Frontend::Terminate => Err(End::Gone),
            _ => {
                let message = format!("unexpected message type {tag} during COPY from stdin");
                Err(Error::protocol(message).fatal().into())
            }
        }
    }

    /// Waits for the statement, to which the client's rows go meanwhile, unless the client cancels it or goes, or the server
    /// ends.
    pub(super) async fn guarded<T>(
        mut self,
        wire: &mut Wire,
        ends_by: Ends<'_>,
        work: impl Future<Output = std::result::Result<T, RequestError>>,
    ) -> std::result::Result<T, End> {
        let mut work = pin!(caught_async(work));
        let (mut bytes, mut ends, mut is_over) = (Bytes::new(), false, false);
        loop {
            if bytes.is_empty() {
                wire.forget();
            }
            let next = async {
                if !is_over {
                    return wire.message(true).await;
                }
                wire.gone().await;
                Err(End::Gone)
            };
            tokio::select! {
                biased;
                () = ends_by.cancelled.cancelled() => return ends_by.outcome(work, Error::cancelled()).await,
                done = &mut work => return Ok(done.map_err(Error::from)?),
                () = ends_by.closing.cancelled() => {
                    return ends_by.outcome(work, Error::stopping().fatal()).await;
                }
                () = self.sender.send(&mut bytes), if !bytes.is_empty() => {}
                () = self.sender.end(), if ends => ends = false,
                message = next, if bytes.is_empty() => {
                    let (tag, message) = message?;
                    match self.take(message, tag)? {
                        Brought::Text(text) => bytes = text,
                        Brought::End => (ends, is_over) = (true, true),
                    }
                }
            }
        }
    }
}

impl Session {
    /// Asks the client for the rows of a COPY FROM STDIN, once it is known that there is a table for them.
    pub(super) async fn ask_for_rows(&mut self, part: &Part) -> std::result::Result<(Rows, Copying), End> {
        let described = self.describe_statement(part, Vec::new()).await?;
        let Some(form) = &described.copied else {
            return Err(Error::unsupported("COPY from stdin but of a table").into());
        };
        let columns = rows::columns(&described.arrow, &[])?;
        let is_binary = form.format == CopyFormat::Binary;
        let (format, count) = response(form, columns.len())?;
        self.wire.put(&CopyInResponse::new(format, count, vec![format.into(); columns.len()]))?;
        self.wire.flush().await?;
        let (sender, copying) = Sender::new();
        let binary = is_binary.then(|| Binary::new(&columns));
        let kept = self.shared.state.memory.reserve(Consumer::Messages);
        Ok((Rows { sender, binary, kept }, copying))
    }

    /// Sends all rows of a COPY TO STDOUT; how many there were.
    pub(super) async fn copy_out(
        &mut self,
        under: &mut Under,
        form: &CopyForm,
    ) -> std::result::Result<u64, End> {
        let Self { shared, wire, writes_follow, .. } = self;
        let (format, count) = response(form, under.columns.len())?;
        wire.put(&CopyOutResponse::new(format, count, vec![format.into(); under.columns.len()]))?;
        out::begin(form, &mut under.columns, wire.output())?;
        loop {
            let (ends, next) = under.next(&shared.closing, *writes_follow);
            let Some(batch) = guarded(wire, ends, next).await? else { break };
            let in_hand = bytes_of(&batch);
            let mut from = 0;
            while from < batch.num_rows() {
                let next = out::rows(form, &batch, &under.columns, (from, under.sent), wire.output())?;
                under.sent += (next - from) as u64;
                from = next;
                under.send_if_full(wire, in_hand).await?;
                if under.cancelled.is_cancelled() {
                    return Err(Error::cancelled().into());
                }
            }
        }
        out::end(form, under.sent, wire.output())?;
        wire.put(&CopyDone::new())?;
        Ok(under.sent)
    }
}

/// The format and the number of columns, as they are told.
fn response(form: &CopyForm, columns: usize) -> Result<(i8, i16)> {
    let count = i16::try_from(columns).map_err(|_| Error::limit("too many columns"))?;
    Ok((i8::from(form.format == CopyFormat::Binary), count))
}
