//! Reading few rows of a block.

use crate::encoding::{KeyColumn, UNIT_ROWS};

/// Nanoseconds that it takes to decode a unit of rows, about.
const UNIT_COST: usize = 250;

/// Writes the keys of rows at ascending places behind row `first`, the start of a block: row by row, or by whole
/// units where several rows lie in one and a row is dear.
pub(super) fn gather(keys: &dyn KeyColumn, first: usize, places: &[u16], out: &mut [i64]) {
    let cost = keys.costs().get as usize;
    let mut unit = [0; UNIT_ROWS];
    let mut rest = out;
    let unit_of = |place: &u16| usize::from(*place) / UNIT_ROWS;
    for places in places.chunk_by(|a, b| unit_of(a) == unit_of(b)) {
        let out;
        (out, rest) = rest.split_at_mut(places.len());
        if places.len() * cost <= UNIT_COST {
            out.iter_mut().zip(places).for_each(|(out, place)| *out = keys.get(first + usize::from(*place)));
            continue;
        }
        let start = unit_of(&places[0]) * UNIT_ROWS;
        let rows = UNIT_ROWS.min(keys.rows() - first - start);
        keys.decode(first + start, &mut unit[..rows]);
        out.iter_mut().zip(places).for_each(|(out, place)| *out = unit[usize::from(*place) - start]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{encoding::encode_keys, keys::Native};

    #[test]
    fn few_rows_are_those_of_all() {
        let keys: Vec<i64> = (0..70_000).map(|i| i * i % 1013).collect();
        for encoding in ["plain", "packed", "runs", "bitcompress", "dictionary"] {
            let column = encode_keys(&keys, Native::I64, None, Some(encoding)).unwrap().column;
            for (first, places) in
                [(0, vec![0, 1, 511, 512, 65_535]), (65_536, (0..4464).step_by(3).collect())]
            {
                let mut out = vec![0; places.len()];
                gather(column.as_ref(), first, &places, &mut out);
                for (key, place) in out.iter().zip(&places) {
                    assert_eq!(*key, keys[first + usize::from(*place)], "{encoding}, row {place}");
                }
            }
        }
    }
}
