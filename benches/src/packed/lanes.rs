//! The `fastlanes` crate: 1,024 codes at a time in the narrowest lanes that hold them, compared as they are unpacked.
//! Its widths are constants, so there is a function for each.

use fastlanes::{BitPacking, BitPackingCompare, FastLanesComparable, transpose_bits};

/// Rows of a block of the crate.
const BLOCK: usize = 1024;

/// Codes as the crate packs them.
#[derive(Debug)]
pub struct Lanes {
    width: u32,
    packed: Packed,
}

#[derive(Debug)]
enum Packed {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
}

/// Calls a function of a lane and a width that is known at run time alone, and of the lanes of a block.
macro_rules! at_width {
    ($t:ident, $width:expr, $call:ident $args:tt, $($w:literal)*) => {
        match $width {
            $($w => $call::<$t, $w, { BLOCK * $w / $t::BITS as usize }> $args,)*
            other => unreachable_width(other),
        }
    };
}

macro_rules! u8_lanes {
    ($width:expr, $call:ident $args:tt) => {
        at_width!(u8, $width, $call $args, 1 2 3 4 5 6 7 8)
    };
}

macro_rules! u16_lanes {
    ($width:expr, $call:ident $args:tt) => {
        at_width!(u16, $width, $call $args, 11 16)
    };
}

macro_rules! u32_lanes {
    ($width:expr, $call:ident $args:tt) => {
        at_width!(u32, $width, $call $args, 20 24 31)
    };
}

#[allow(clippy::panic, reason = "a benchmark stops at what goes wrong")]
fn unreachable_width(width: u32) -> ! {
    panic!("no function for codes of {width} bits")
}

impl Lanes {
    /// Packs codes, of which there are whole blocks.
    ///
    /// # Panics
    /// Where the width has no function here, or there is a part of a block.
    pub fn pack(width: u32, codes: &[u64]) -> Self {
        assert!(codes.len().is_multiple_of(BLOCK), "{} rows are no whole blocks", codes.len());
        let packed = match width {
            1..=8 => Packed::U8(u8_lanes!(width, pack(codes))),
            9..=16 => Packed::U16(u16_lanes!(width, pack(codes))),
            _ => Packed::U32(u32_lanes!(width, pack(codes))),
        };
        Self { width, packed }
    }

    /// Writes the mask of the codes that are at most `most`, in the order in which the crate makes it.
    pub fn at_most(&self, most: u64, out: &mut Vec<u64>) {
        out.clear();
        match &self.packed {
            Packed::U8(packed) => u8_lanes!(self.width, at_most(packed, most, |mask| out.extend(mask))),
            Packed::U16(packed) => u16_lanes!(self.width, at_most(packed, most, |mask| out.extend(mask))),
            Packed::U32(packed) => u32_lanes!(self.width, at_most(packed, most, |mask| out.extend(mask))),
        }
    }

    /// The same in the order of the rows.
    pub fn at_most_in_order(&self, most: u64, out: &mut Vec<u64>) {
        out.clear();
        match &self.packed {
            Packed::U8(packed) => {
                u8_lanes!(self.width, at_most(packed, most, |mask| out.extend(order::<u8>(mask))))
            }
            Packed::U16(packed) => {
                u16_lanes!(self.width, at_most(packed, most, |mask| out.extend(order::<u16>(mask))))
            }
            Packed::U32(packed) => {
                u32_lanes!(self.width, at_most(packed, most, |mask| out.extend(order::<u32>(mask))))
            }
        }
    }

    /// A mask that [`at_most`](Self::at_most) wrote, in the order of the rows.
    pub fn in_order(&self, mask: &[u64]) -> Vec<u64> {
        let blocks = mask.as_chunks::<16>().0.iter();
        blocks
            .flat_map(|&block| match &self.packed {
                Packed::U8(_) => order::<u8>(block),
                Packed::U16(_) => order::<u16>(block),
                Packed::U32(_) => order::<u32>(block),
            })
            .collect()
    }
}

fn order<T: fastlanes::FastLanes>(mask: [u64; 16]) -> [u64; 16] {
    let mut ordered = [0; 16];
    transpose_bits::<T>(&mask, &mut ordered);
    ordered
}

fn pack<T: BitPacking + Default + TryFrom<u64>, const W: usize, const B: usize>(codes: &[u64]) -> Vec<T> {
    let blocks = codes.chunks_exact(BLOCK).map(|codes| {
        let mut block = [T::default(); BLOCK];
        for (lane, &code) in block.iter_mut().zip(codes) {
            *lane = T::try_from(code).unwrap_or_default();
        }
        let mut packed = [T::default(); B];
        T::pack::<W, B>(&block, &mut packed);
        packed
    });
    blocks.flatten().collect()
}

#[inline(always)]
fn at_most<T, const W: usize, const B: usize>(packed: &[T], most: u64, mut put: impl FnMut([u64; 16]))
where
    T: BitPackingCompare + FastLanesComparable<Bitpacked = T> + PartialOrd + Default + TryFrom<u64>,
{
    let most = T::try_from(most).unwrap_or_default();
    for block in packed.as_chunks::<B>().0 {
        let mut mask = [0; 16];
        T::unpack_cmp::<W, B, T, _>(block, &mut mask, |code, most| code <= most, most);
        put(mask);
    }
}
