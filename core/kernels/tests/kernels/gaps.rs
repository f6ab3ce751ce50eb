//! Coded gaps.

use basalt_kernels::{
    gaps::{self, Gaps, Highs, MAX_K},
    tables,
};
use proptest::prelude::*;

/// The streams of positions, which begin at these bits, with `more` bytes of ones behind.
fn encode(highs: Highs, k: u32, positions: &[u16], bits: [usize; 2], more: usize) -> [Vec<u8>; 2] {
    let [mut unary, mut lows] = bits.map(|bit| vec![true; bit]);
    let mut next = 0;
    for &position in positions {
        let position = u32::from(position);
        let number = match highs {
            Highs::Carried => (position - next) >> k,
            Highs::Steps => (position >> k) - (next >> k),
        };
        next = if highs == Highs::Carried { position + 1 } else { position };
        unary.extend((0..number).map(|_| false));
        unary.push(true);
        lows.extend((0..k).map(|i| position >> i & 1 == 1));
    }
    [unary, lows].map(|stream| {
        let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        let mut bytes: Vec<u8> = stream.chunks(8).map(byte).collect();
        bytes.resize(bytes.len() + more, 0xff);
        bytes
    })
}

fn any_highs() -> impl Strategy<Value = Highs> {
    prop::sample::select(vec![Highs::Steps, Highs::Carried])
}

/// Ascending positions: scattered, or dense from some place on.
fn any_positions() -> impl Strategy<Value = Vec<u16>> {
    let scattered =
        prop::collection::btree_set(any::<u16>(), 0..700).prop_map(|set| set.into_iter().collect());
    let dense = (any::<u16>(), 0..900_u16).prop_map(|(from, n)| (from..from.saturating_add(n)).collect());
    // Some thousand rows, of which many are positions.
    let near = (any::<u16>(), prop::collection::vec(1..40_u16, 0..900)).prop_map(|(from, gaps)| {
        let rows = gaps.into_iter().scan(from, |row, gap| {
            *row = row.checked_add(gap)?;
            Some(*row)
        });
        rows.collect()
    });
    prop_oneof![scattered, dense, near]
}

proptest! {
    #[test]
    fn positions_come_back(
        highs in any_highs(),
        k in 0..=MAX_K,
        positions in any_positions(),
        bits in [0..20_usize, 0..20_usize],
        more in prop::sample::select(vec![0_usize, 1, 64]),
        room in 0..40_usize,
        some in any::<u16>(),
    ) {
        let [unary, lows] = encode(highs, k, &positions, bits, more);
        let gaps = Gaps {
            highs,
            k,
            count: positions.len(),
            unary: &unary,
            unary_bit: bits[0],
            lows: &lows,
            lows_bit: bits[1],
        };
        for (isa, table) in tables() {
            let mut out = vec![7; positions.len() + room];
            let end = table.gaps_positions(&gaps, &mut out);
            prop_assert_eq!(&out[..positions.len()], &positions, "{}", isa);
            prop_assert!(end.is_some_and(|end| end.div_ceil(8) + more == unary.len() || positions.is_empty()));
            let asked = positions.iter().step_by(7).flat_map(|&p| [p.saturating_sub(1), p, p.saturating_add(1)]);
            for asked in asked.chain([0, some, u16::MAX]) {
                // To find one, Elias-Fano counts zeros, of which there are as many as its high part.
                if highs == Highs::Steps && positions.last().is_none_or(|last| asked >> k > last >> k) {
                    continue;
                }
                let rank = table.gaps_rank(&gaps, asked);
                let below = positions.partition_point(|&p| p < asked);
                prop_assert_eq!(rank, Some((below, positions.get(below) == Some(&asked))), "{} {}", isa, asked);
            }
        }
    }

    #[test]
    fn any_bytes_give_the_same(
        highs in any_highs(),
        k in 0..=MAX_K,
        count in 0..600_usize,
        unary in prop::collection::vec(prop::sample::select(vec![0_u8, 0, 1, 0x55, 0x80, 0xff]), 0..200),
        lows in prop::collection::vec(any::<u8>(), 0..700),
        unary_bit in 0..2000_usize,
        lows_bit in 0..2000_usize,
        asked in any::<u16>(),
    ) {
        let gaps = Gaps { highs, k, count, unary: &unary, unary_bit, lows: &lows, lows_bit };
        let mut expected = None;
        for (isa, table) in tables() {
            let mut out = vec![0; count];
            let end = table.gaps_positions(&gaps, &mut out);
            let found = end.map(|end| (end, out));
            prop_assert_eq!(expected.get_or_insert(found.clone()), &found, "{}", isa);
            prop_assert!(table.gaps_rank(&gaps, asked).is_none_or(|(below, _)| below <= count));
        }
    }

    #[test]
    fn bits_of_positions_are_set(positions in any_positions(), from in 0..100_usize, chosen in any::<u64>(), rare in any::<bool>()) {
        let chosen = if rare { chosen & 0x1010_0800_0020_0000 } else { chosen };
        let positions: Vec<u16> = positions.into_iter().filter(|&p| usize::from(p) >= 64 * from).collect();
        let chosen: Vec<u64> = (0..20).map(|i| chosen.rotate_left(i)).collect();
        let (mut all, mut some) = (vec![0; 1024 - from], vec![0; 1024 - from]);
        gaps::set(&positions, from, &mut all);
        gaps::set_chosen(&positions, from, &chosen, 3, &mut some);
        let mut expected = [all.clone(), some.clone()].map(|mask| vec![0_u64; mask.len()]);
        for (i, &position) in (3..).zip(&positions) {
            let place = usize::from(position) - 64 * from;
            expected[0][place / 64] |= 1 << (place % 64);
            expected[1][place / 64] |= (chosen[i / 64] >> (i % 64) & 1) << (place % 64);
        }
        prop_assert_eq!([all, some], expected);
    }
}
