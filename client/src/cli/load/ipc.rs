//! What an Arrow IPC file says of its own sizes, checked before anything is allocated by it.
//!
//! The readers of `arrow-ipc` allocate what a message announces: its header, its body, and each compressed buffer as
//! long as it claims to be. So the messages are walked first, by their headers alone.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

use arrow_ipc::{Block, Message, root_as_footer, root_as_message};

/// Before each message; streams older than Arrow 0.15 lack it.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Behind the footer of a file: its length, and the magic.
const TAIL_BYTES: u64 = 10;
/// Bytes of a message's header, or of a footer.
const MAX_HEADER_BYTES: u64 = 64 << 20;
/// What the buffers of a compressed batch take when they are decompressed.
const MAX_BATCH_BYTES: u64 = 4 << 30;

/// Checks a stream; the file is at its start again afterwards.
pub(super) fn check_stream(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut at = 0;
    while let Some((header, body)) = header(file, at, length)? {
        at = check(file, &header, body, length)?;
    }
    file.rewind()
}

/// Checks a file, by its footer; it is at its start again afterwards.
pub(super) fn check_file(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let tail_at =
        length.checked_sub(TAIL_BYTES).ok_or_else(|| wrong("the file is too short for its footer"))?;
    let mut tail = [0; 4];
    file.seek(SeekFrom::Start(tail_at))?;
    file.read_exact(&mut tail)?;
    let footer_bytes = u64::from(u32::from_le_bytes(tail));
    let footer_at = tail_at.checked_sub(footer_bytes).filter(|_| footer_bytes <= MAX_HEADER_BYTES);
    let footer_at = footer_at.ok_or_else(|| wrong("its footer is longer than the file"))?;
    let footer = read_at(file, footer_at, footer_bytes)?;
    let footer = root_as_footer(&footer).map_err(|e| wrong(&format!("its footer is malformed: {e}")))?;
    let blocks =
        footer.dictionaries().into_iter().flatten().chain(footer.recordBatches().into_iter().flatten());
    for block in blocks {
        check_block(file, block, length)?;
    }
    file.rewind()
}

fn check_block(file: &mut File, block: &Block, length: u64) -> io::Result<()> {
    let outside = || wrong("its footer names a message outside of the file");
    let start = u64::try_from(block.offset()).map_err(|_| outside())?;
    let header_bytes = u64::try_from(block.metaDataLength()).map_err(|_| outside())?;
    let body_bytes = u64::try_from(block.bodyLength()).map_err(|_| outside())?;
    let end = start.checked_add(header_bytes).and_then(|end| end.checked_add(body_bytes));
    if end.is_none_or(|end| end > length) {
        return Err(outside());
    }
    match header(file, start, length)? {
        Some((header, body)) => check(file, &header, body, length).map(|_| ()),
        None => Err(wrong("its footer names a message that is none")),
    }
}

/// The header of the message at a place, and where its body starts; `None` at the end of the stream.
fn header(file: &mut File, at: u64, length: u64) -> io::Result<Option<(Vec<u8>, u64)>> {
    let mut at = at;
    let mut size = || -> io::Result<Option<[u8; 4]>> {
        if at == length {
            return Ok(None);
        }
        let bytes = read_at(file, at, 4.min(length.saturating_sub(at)))?;
        at += 4;
        <[u8; 4]>::try_from(bytes).map(Some).map_err(|_| wrong("the file ends inside a message"))
    };
    let Some(mut bytes) = size()? else { return Ok(None) };
    if bytes == CONTINUATION {
        bytes = size()?.ok_or_else(|| wrong("the file ends inside a message"))?;
    }
    let bytes = u64::from(u32::from_le_bytes(bytes));
    if bytes == 0 {
        return Ok(None);
    }
    if bytes > MAX_HEADER_BYTES || bytes > length.saturating_sub(at) {
        return Err(wrong("a message's header is longer than the file"));
    }
    Ok(Some((read_at(file, at, bytes)?, at + bytes)))
}

/// Checks a message; gives where the next one starts.
fn check(file: &mut File, header: &[u8], body: u64, length: u64) -> io::Result<u64> {
    let message = root_as_message(header).map_err(|e| wrong(&format!("a message is malformed: {e}")))?;
    let bytes =
        u64::try_from(message.bodyLength()).ok().filter(|bytes| *bytes <= length.saturating_sub(body));
    let bytes = bytes.ok_or_else(|| wrong("a message's body is longer than the file"))?;
    let mut total = 0_u64;
    for (offset, size) in compressed(&message) {
        let (offset, size) = (u64::try_from(offset), u64::try_from(size));
        let (Ok(offset), Ok(size)) = (offset, size) else {
            return Err(wrong("a buffer outside of its body"));
        };
        if offset.checked_add(size).is_none_or(|end| end > bytes) {
            return Err(wrong("a buffer outside of its body"));
        }
        if size < 8 {
            continue;
        }
        let claimed = read_at(file, body + offset, 8)?;
        let claimed = <[u8; 8]>::try_from(claimed).map_or(0, i64::from_le_bytes);
        // -1 says that a buffer is not compressed.
        total = total.saturating_add(u64::try_from(claimed).unwrap_or(size));
    }
    if total > MAX_BATCH_BYTES {
        let message = format!("a batch would take {total} bytes; the limit is {} GiB", MAX_BATCH_BYTES >> 30);
        return Err(wrong(&message));
    }
    Ok(body + bytes)
}

/// Where the buffers of a compressed batch are in its body.
fn compressed(message: &Message<'_>) -> Vec<(i64, i64)> {
    let batch = message.header_as_record_batch();
    let batch =
        batch.or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
    let batch = batch.filter(|batch| batch.compression().is_some());
    let buffers = batch.and_then(|batch| batch.buffers());
    buffers.into_iter().flatten().map(|buffer| (buffer.offset(), buffer.length())).collect()
}

fn read_at(file: &mut File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read)?;
    if read.len() as u64 == bytes { Ok(read) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn wrong(message: &str) -> io::Error {
    io::Error::other(message.to_owned())
}
