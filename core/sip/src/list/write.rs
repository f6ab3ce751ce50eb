//! Writing a list.

use super::{Codec, Entry};
use crate::{rice::GROUP, varint};

/// Writes increasing ids as they come.
#[derive(Debug)]
pub(crate) struct Writer {
    codec: Codec,
    groups: Vec<u8>,
    index: Vec<Entry>,
    /// The ids of the group that is not full yet.
    ids: [u64; GROUP],
    len: usize,
    /// The id before them.
    last: Option<u64>,
    cardinality: u64,
}

impl Writer {
    pub(crate) fn new(codec: Codec) -> Self {
        Self {
            codec,
            groups: Vec::new(),
            index: Vec::new(),
            ids: [0; GROUP],
            len: 0,
            last: None,
            cardinality: 0,
        }
    }

    /// Appends ids above all before.
    pub(crate) fn push(&mut self, mut ids: &[u64]) {
        self.cardinality += ids.len() as u64;
        while !ids.is_empty() {
            if self.len == 0
                && let Some((group, rest)) = ids.split_at_checked(GROUP)
            {
                self.group(group);
                ids = rest;
                continue;
            }
            let (some, rest) = ids.split_at(ids.len().min(GROUP - self.len));
            self.ids[self.len..][..some.len()].copy_from_slice(some);
            self.len += some.len();
            ids = rest;
            if self.len == GROUP {
                self.flush();
            }
        }
    }

    /// The bytes of the SIP, the place of each group in them, and the number of ids, at least 1.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Box<[Entry]>, u64) {
        self.flush();
        self.index.push(Entry { before: self.last.unwrap_or(0), at: self.groups.len() });
        let mut bytes = Vec::with_capacity(1 + varint::len(self.cardinality) + self.groups.len());
        bytes.push(self.codec.tag() as u8);
        varint::write(self.cardinality, &mut bytes);
        self.index.iter_mut().for_each(|entry| entry.at += bytes.len());
        bytes.append(&mut self.groups);
        (bytes, self.index.into(), self.cardinality)
    }

    fn flush(&mut self) {
        let ids = self.ids;
        if self.len > 0 {
            self.group(&ids[..self.len]);
            self.len = 0;
        }
    }

    fn group(&mut self, ids: &[u64]) {
        self.index.push(Entry { before: self.last.unwrap_or(0), at: self.groups.len() });
        self.codec.write(self.last, ids, &mut self.groups);
        self.last = ids.last().copied();
    }
}
