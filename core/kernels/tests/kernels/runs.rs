//! Runs of rows.

use basalt_kernels::runs::MAX_K;

use crate::rows::{Random, for_tables, property, selects, words};

/// Lengths of runs of `rows` rows: short ones, and some that are long.
fn lengths(rows: usize, random: &mut Random) -> Vec<usize> {
    let (mut lengths, mut left) = (Vec::new(), rows);
    let most = 1 + random.below(9);
    while left > 0 {
        let length = if random.below(40) == 0 { random.below(400) } else { random.below(most) };
        lengths.push((length as usize + 1).min(left));
        left -= lengths[lengths.len() - 1];
    }
    lengths
}

/// The mask of the last rows of runs behind `first` rows.
fn ends(first: usize, lengths: &[usize]) -> Vec<bool> {
    let runs = lengths.iter().flat_map(|length| (1..=*length).map(move |row| row == *length));
    vec![false; first].into_iter().chain(runs).collect()
}

#[test]
fn ends_are_those_of_the_codes() {
    property(3000, |rows, random| {
        for k in 0..=MAX_K {
            let lengths = lengths(rows, random);
            let begin = random.below(20) as usize;
            let mut bits: Vec<bool> = (0..begin).map(|_| random.below(2) == 0).collect();
            for number in lengths.iter().map(|length| length - 1) {
                bits.extend(vec![false; number >> k]);
                bits.push(true);
                bits.extend((0..k).map(|bit| number >> bit & 1 == 1));
            }
            let end = bits.len();
            // What comes behind does not matter.
            bits.extend((0..random.below(90)).map(|_| random.below(2) == 0));
            let bytes: Vec<u8> = words(&bits).iter().flat_map(|word| word.to_le_bytes()).collect();
            let first = random.below(130) as usize;
            let before: Vec<bool> = (0..first).map(|_| random.below(2) == 0).collect();
            let expected = words(&[&before[..], &ends(first, &lengths)[first..]].concat());
            for_tables(|table| {
                let mut out = words(&before);
                out.resize(expected.len(), u64::MAX);
                table.runs_ends(&bytes, begin..end, k, first, &mut out);
                assert_eq!(out, expected, "{} {k} {rows} from bit {begin}, row {first}", table.isa());
            });
        }
    });
}

#[test]
fn rows_are_those_of_their_runs() {
    property(3000, |rows, random| {
        let ends = ends(0, &lengths(rows, random));
        let first = random.below(200) as usize;
        let share = 1 + random.below(5);
        let runs: Vec<bool> = (0..first + ends.len() + 1).map(|_| random.below(share) == 0).collect();
        let ended =
            ends.iter().scan(first, |run, end| Some(std::mem::replace(run, *run + usize::from(*end))));
        let numbers: Vec<usize> = ended.collect();
        let selected: Vec<bool> = numbers.iter().map(|run| runs[*run]).collect();
        let some: Vec<u16> = (0..rows as u16).filter(|_| random.below(3) == 0).collect();
        let (ends, runs, expected) = (words(&ends), words(&runs), words(&selected));
        for_tables(|table| {
            let mut out = vec![u64::MAX; ends.len()];
            table.runs_spread(&ends, &runs, first, &mut out);
            for row in 0..rows {
                assert_eq!(selects(&out, row), selects(&expected, row), "{} {row} of {rows}", table.isa());
            }
            let mut out = vec![0; some.len()];
            table.runs_numbers(&ends, &some, &mut out);
            let expected = some.iter().map(|row| (numbers[usize::from(*row)] - first) as u16);
            assert!(out.iter().copied().eq(expected), "{} {rows}", table.isa());
        });
    });
}
