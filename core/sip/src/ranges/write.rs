//! Writing ranges.

use super::{Entry, Range};
use crate::{Tag, rice, rice::GROUP, varint};

/// Writes ranges as they come; those that touch become one.
#[derive(Debug)]
pub(crate) struct Writer {
    groups: Vec<u8>,
    index: Vec<Entry>,
    gaps: [u64; GROUP],
    lengths: [u64; GROUP],
    len: usize,
    /// The range that may still grow.
    open: Option<Range>,
    /// The last id of the range before it.
    last: Option<u64>,
    /// The last id before the group that is not full yet, and the ids before it.
    start: (u64, u64),
    ranges: u64,
    ids: u64,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            groups: Vec::new(),
            index: Vec::new(),
            gaps: [0; GROUP],
            lengths: [0; GROUP],
            len: 0,
            open: None,
            last: None,
            start: (0, 0),
            ranges: 0,
            ids: 0,
        }
    }

    /// Appends the ids from `first` to `last`, all above those before.
    #[inline]
    pub(crate) fn push(&mut self, first: u64, last: u64) {
        match &mut self.open {
            Some(open) if first - open.last == 1 => open.last = last,
            _ => {
                self.close();
                self.open = Some(Range { first, last });
            }
        }
    }

    /// The bytes of the SIP, the place of each group in them, and the number of ids, at least 1.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Box<[Entry]>, u64) {
        self.close();
        self.flush();
        let (last, ids) = self.start;
        self.index.push(Entry { last, ids, at: self.groups.len() });
        let mut bytes = Vec::with_capacity(1 + varint::len(self.ranges) + self.groups.len());
        bytes.push(Tag::Ranges as u8);
        varint::write(self.ranges, &mut bytes);
        self.index.iter_mut().for_each(|entry| entry.at += bytes.len());
        bytes.append(&mut self.groups);
        (bytes, self.index.into(), self.ids)
    }

    fn close(&mut self) {
        let Some(range) = self.open.take() else { return };
        self.gaps[self.len] = self.last.map_or(range.first, |last| range.first - last - 2);
        self.lengths[self.len] = range.last - range.first;
        self.len += 1;
        self.last = Some(range.last);
        self.ranges += 1;
        self.ids = self.ids.saturating_add(range.len());
        if self.len == GROUP {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.len > 0 {
            let (last, ids) = self.start;
            self.index.push(Entry { last, ids, at: self.groups.len() });
            rice::write(&self.gaps[..self.len], &mut self.groups);
            rice::write(&self.lengths[..self.len], &mut self.groups);
            self.start = (self.last.unwrap_or(0), self.ids);
            self.len = 0;
        }
    }
}
