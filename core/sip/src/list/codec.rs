//! How the distances of a group are written.

use basalt_kernels::prefix;

use crate::{SipError, Tag, groups::Code, reader::Reader, rice, varint};

/// The tags that hold lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// 0x02: differences as varints.
    VarintDelta,
    /// 0x04: the ids left out between two, in Rice groups.
    Gaps,
}

impl Codec {
    /// That of a list under a tag; under one that holds no lists it is 0x04's.
    pub(crate) fn of(tag: Tag) -> Self {
        if tag == Tag::VarintDelta { Self::VarintDelta } else { Self::Gaps }
    }

    /// The tag that stands before it.
    pub(crate) fn tag(self) -> Tag {
        match self {
            Self::VarintDelta => Tag::VarintDelta,
            Self::Gaps => Tag::Gaps,
        }
    }

    /// Bytes that `cardinality` ids take, at least.
    pub(super) fn least_bytes(self, cardinality: u64) -> usize {
        let least = match self {
            Self::VarintDelta => cardinality,
            Self::Gaps => cardinality / 8 + cardinality.div_ceil(rice::GROUP as u64),
        };
        usize::try_from(least).unwrap_or(usize::MAX)
    }

    /// Appends the group of `ids` behind the id `last`.
    pub(super) fn write(self, last: Option<u64>, ids: &[u64], out: &mut Vec<u8>) {
        match self {
            Self::VarintDelta => {
                let mut last = last.unwrap_or(0);
                for &id in ids {
                    varint::write(id - last, out);
                    last = id;
                }
            }
            Self::Gaps => {
                let mut gaps = [0; rice::GROUP];
                rice::write(to_gaps(last, ids, &mut gaps), out);
            }
        }
    }
}

impl Code for Codec {
    type Member = u64;

    fn read(
        self,
        reader: &mut Reader<'_>,
        last: Option<u64>,
        ids: &mut [u64],
        strict: bool,
    ) -> Result<(), SipError> {
        match self {
            Self::VarintDelta => read_varints(reader, last, ids),
            Self::Gaps => {
                let at = reader.at();
                rice::read(reader, ids, strict)?;
                let next = last.map_or(Some(0), |last| last.checked_add(1));
                next.and_then(|next| prefix::gaps_to_ids(next, ids)).ok_or(SipError::Overflow { at })?;
                Ok(())
            }
        }
    }

    fn last(id: &u64) -> u64 {
        *id
    }
}

fn read_varints(reader: &mut Reader<'_>, last: Option<u64>, ids: &mut [u64]) -> Result<(), SipError> {
    let mut first = last.is_none();
    let mut last = last.unwrap_or(0);
    for id in ids {
        let at = reader.at();
        let delta = varint::read(reader)?;
        if delta == 0 && !first {
            return Err(SipError::Order { at, what: "id" });
        }
        first = false;
        last = last.checked_add(delta).ok_or(SipError::Overflow { at })?;
        *id = last;
    }
    Ok(())
}

/// The ids left out before each of `ids`, at most a group of them.
pub(crate) fn to_gaps<'a>(last: Option<u64>, ids: &[u64], gaps: &'a mut [u64; rice::GROUP]) -> &'a [u64] {
    let gaps = &mut gaps[..ids.len()];
    if let (Some(gap), Some(&first)) = (gaps.first_mut(), ids.first()) {
        *gap = last.map_or(first, |last| first - last - 1);
    }
    for (gap, pair) in gaps.iter_mut().skip(1).zip(ids.windows(2)) {
        *gap = pair[1] - pair[0] - 1;
    }
    gaps
}
