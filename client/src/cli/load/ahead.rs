//! Records of a file that are read and split into cells on a thread of their own, while those before them are looked at.

use std::{
    fmt::Display,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};

use super::{chunk::Chunk, rows::Records};
use crate::cli::CliError;

/// Pieces that wait for whoever looks at them. With the one that is read and the one that is looked at all are in memory.
const WAITING: usize = 1;

/// Some records that follow each other, and what else was found among them.
pub(super) struct Piece {
    pub(super) chunk: Chunk,
    /// Rows that are not in the chunk: how many of its rows come before, and what is wrong.
    pub(super) bad: Vec<(usize, String)>,
    /// Bytes of the file that were read.
    pub(super) bytes: u64,
    /// What comes behind: nothing, or what cannot be read. `None`: another piece.
    end: Option<Result<(), CliError>>,
}

impl Piece {
    /// Fails where what comes behind it cannot be read. Bad rows before that are told first.
    pub(super) fn check(&mut self) -> Result<(), CliError> {
        // Default: nothing is wrong.
        self.end.take_if(|end| end.is_err()).unwrap_or(Ok(()))
    }
}

/// Hands the records of a file to `take` in their order, until it does not want more. More bad rows than `max_bad` are an error
/// to it, so that a piece ends with the first one too many.
pub(super) fn each(
    records: &mut Records<'_>,
    max_bad: u64,
    mut take: impl FnMut(&mut Piece) -> Result<bool, CliError>,
) -> Result<(), CliError> {
    thread::scope(move |scope| {
        // Dropped in here: a reader to whom nobody listens ends, and is waited for behind.
        let (sender, pieces) = mpsc::sync_channel(WAITING);
        let (done_with, free) = mpsc::channel();
        let reader = move || read(records, max_bad, &sender, &free);
        thread::Builder::new().spawn_scoped(scope, reader).map_err(|e| failed(&e))?;
        loop {
            let mut piece: Piece = pieces.recv().map_err(|e| failed(&e))?;
            let goes_on = take(&mut piece)?;
            if !goes_on || piece.end.is_some() {
                return Ok(());
            }
            piece.chunk.clear();
            // Nobody takes it where the last piece is read already.
            let _ = done_with.send(piece.chunk);
        }
    })
}

fn failed(why: &dyn Display) -> CliError {
    CliError::input(format!("the reader failed: {why}"))
}

/// Reads until the end, or until nobody listens. Chunks that are `free` are filled again: memory that is new costs time.
fn read(records: &mut Records<'_>, max_bad: u64, pieces: &SyncSender<Piece>, free: &Receiver<Chunk>) {
    loop {
        // Default: none has come back yet.
        let chunk = free.try_recv().unwrap_or_else(|_| Chunk::new(records.columns().len()));
        let mut piece = Piece { chunk, bad: Vec::new(), bytes: 0, end: None };
        while piece.end.is_none() && !piece.chunk.is_full() && piece.bad.len() as u64 <= max_bad {
            match records.next() {
                Ok(Some(Ok(record))) => piece.chunk.push(record),
                Ok(Some(Err(reason))) => piece.bad.push((piece.chunk.rows(), reason)),
                Ok(None) => piece.end = Some(Ok(())),
                Err(error) => piece.end = Some(Err(error)),
            }
        }
        piece.bytes = records.bytes_read();
        let is_last = piece.end.is_some();
        if pieces.send(piece).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::cli::load::{FileFormat, options::Options, source::InputFile, tests::args};

    #[test]
    fn pieces_come_in_order_until_no_more_are_wanted() {
        let rows = 300_000;
        let text: String = (0..rows).map(|i| format!("{i}\n")).collect();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("f.csv");
        fs::write(&path, format!("a\n{text}")).unwrap();
        let file = InputFile::new(&path, FileFormat::Csv).unwrap();
        let options = Options::new(&args(&["t", "f.csv"]));
        let read = |wanted: usize| {
            let mut records = Records::to_infer(&file, &options).unwrap();
            let (mut cells, mut bytes) = (String::new(), 0);
            let outcome = each(&mut records, 0, |piece| {
                piece.check()?;
                assert!(piece.bad.is_empty() && piece.bytes >= bytes);
                bytes = piece.bytes;
                for row in 0..piece.chunk.rows() {
                    cells += std::str::from_utf8(piece.chunk.cell(row, 0)).unwrap();
                    cells.push('\n');
                }
                if wanted == 0 { Err(CliError::Interrupted) } else { Ok(cells.len() < wanted) }
            });
            (cells, outcome)
        };
        let (all, outcome) = read(usize::MAX);
        assert!(all == text && outcome.is_ok());
        // The reader has more pieces than may wait, and ends nevertheless.
        let (some, outcome) = read(1);
        assert!(text.starts_with(&some) && !some.is_empty() && some.len() < text.len() && outcome.is_ok());
        assert!(matches!(read(0).1, Err(CliError::Interrupted)));
    }
}
