//! The groups of a body, read one by one, and the place where one is in them.

use crate::{SipError, reader::Reader, rice::GROUP};

/// How the members of a group are written.
pub(crate) trait Code: Copy {
    /// An id, or a range of ids.
    type Member: Copy + Default;

    /// Reads the group behind the id `last`; `strict` tells canonical bytes from others.
    fn read(
        self,
        reader: &mut Reader<'_>,
        last: Option<u64>,
        members: &mut [Self::Member],
        strict: bool,
    ) -> Result<(), SipError>;

    /// The last id of a member.
    fn last(member: &Self::Member) -> u64;
}

/// A place in the groups of a body.
#[derive(Clone, Debug)]
pub(crate) struct Groups<'a, C: Code> {
    code: C,
    reader: Reader<'a>,
    /// Members that were not read yet.
    left: u64,
    /// The last id that was read.
    last: Option<u64>,
    /// The group that was read last, and what is still to come of it.
    members: [C::Member; GROUP],
    next: usize,
    end: usize,
}

impl<'a, C: Code> Groups<'a, C> {
    /// The groups of `left` members behind the id `last`.
    pub(crate) fn new(code: C, reader: Reader<'a>, left: u64, last: Option<u64>) -> Self {
        Self { code, reader, left, last, members: [C::Member::default(); GROUP], next: 0, end: 0 }
    }

    /// Where the next group stands.
    pub(crate) fn at(&self) -> usize {
        self.reader.at()
    }

    /// Members that were not read yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The last id that was read.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last
    }

    /// That no bytes follow the last group.
    pub(crate) fn end(&self) -> Result<(), SipError> {
        self.reader.end()
    }

    /// The next group, whole.
    pub(crate) fn next(&mut self) -> Option<&[C::Member]> {
        (self.next, self.end) = (0, 0);
        if self.left > 0 && self.read(false).is_err() {
            // Only bytes that were never validated get here.
            self.left = 0;
        }
        (self.end > 0).then_some(&self.members[..self.end])
    }

    /// The members that come next, of one group; none at the end.
    #[inline]
    pub(crate) fn rest(&mut self) -> &[C::Member] {
        if self.next == self.end {
            self.next();
        }
        &self.members[self.next..self.end]
    }

    /// Leaves out members of the [`rest`](Self::rest).
    #[inline]
    pub(crate) fn pass(&mut self, count: usize) {
        self.next += count;
    }

    /// Leaves out the members that end before `id`. Those with an index know groups that are nearer, by `jump`.
    pub(crate) fn skip_to(&mut self, id: u64, jump: Option<impl FnOnce() -> Self>) {
        if self.left == 0 && self.next == self.end {
            return;
        }
        let mut jump = jump;
        while self.members[..self.end].last().is_none_or(|member| C::last(member) < id) {
            if let Some(jump) = jump.take() {
                *self = jump();
            }
            if self.next().is_none() {
                return;
            }
        }
        self.next += self.members[self.next..self.end].partition_point(|member| C::last(member) < id);
    }

    /// Reads the next group; `strict` tells canonical bytes from others.
    pub(crate) fn read(&mut self, strict: bool) -> Result<&[C::Member], SipError> {
        let count = usize::try_from(self.left).map_or(GROUP, |left| left.min(GROUP));
        let members = &mut self.members[..count];
        self.code.read(&mut self.reader, self.last, members, strict)?;
        self.last = members.last().map(C::last);
        (self.next, self.end) = (0, count);
        self.left -= count as u64;
        Ok(&self.members[..count])
    }
}
