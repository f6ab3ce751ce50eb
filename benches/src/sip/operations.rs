//! Set operations from bytes to bytes: both sets come over the wire, and the answer leaves over it.

use std::{iter, time::Duration};

use super::{
    data::Cell,
    encoding::{Bytes, Encoding, Operation},
    ours::{Chosen, Tagged},
    rivals::{CroaringBitmap64, CroaringTreemap, RoaringRuns},
};
use crate::{table, timing::Race};

const EACH: Duration = Duration::from_millis(30);

struct Pair {
    name: &'static str,
    encode: [fn(&[u64]) -> Bytes; 2],
    run: fn(Operation, &[u8], &[u8]) -> Bytes,
    ids: fn(&[u8]) -> Vec<u64>,
}

impl Pair {
    const fn of<E: Encoding>() -> Self {
        Self { name: E::NAME, encode: [E::encode, E::encode], run: run::<E>, ids: ids::<E> }
    }

    const fn ours<A: Encoding, B: Encoding>(name: &'static str) -> Self {
        Self { name, encode: [A::encode, B::encode], ..Self::of::<Chosen>() }
    }
}

const PAIRS: [Pair; 12] = [
    Pair { name: "decode first, merge, encode", run: decode_first, ..Pair::of::<Chosen>() },
    Pair::of::<RoaringRuns>(),
    Pair::of::<CroaringTreemap>(),
    Pair::of::<CroaringBitmap64>(),
    Pair::ours::<Chosen, Chosen>("basalt, chosen tags"),
    Pair::ours::<Tagged<1>, Tagged<1>>("basalt 0x01, 0x01"),
    Pair::ours::<Tagged<2>, Tagged<2>>("basalt 0x02, 0x02"),
    Pair::ours::<Tagged<3>, Tagged<3>>("basalt 0x03, 0x03"),
    Pair::ours::<Tagged<4>, Tagged<4>>("basalt 0x04, 0x04"),
    Pair::ours::<Tagged<1>, Tagged<3>>("basalt 0x01, 0x03"),
    Pair::ours::<Tagged<1>, Tagged<4>>("basalt 0x01, 0x04"),
    Pair::ours::<Tagged<3>, Tagged<4>>("basalt 0x03, 0x04"),
];

fn run<E: Encoding>(operation: Operation, a: &[u8], b: &[u8]) -> Bytes {
    E::write(E::combine_bytes(operation, a, b))
}

fn ids<E: Encoding>(bytes: &[u8]) -> Vec<u64> {
    E::ids(&E::decode(bytes))
}

fn decode_first(operation: Operation, a: &[u8], b: &[u8]) -> Bytes {
    Chosen::encode(&operation.merge(&ids::<Chosen>(a), &ids::<Chosen>(b)))
}

/// One row for each pair of encodings.
pub fn operation_table(cells: &[Cell]) {
    let mut rows: Vec<Vec<String>> = PAIRS.iter().map(|pair| vec![pair.name.to_owned()]).collect();
    for cell in cells {
        let wires: Vec<[Bytes; 2]> =
            PAIRS.iter().map(|pair| [pair.encode[0](&cell.ids), pair.encode[1](&cell.other)]).collect();
        for operation in Operation::ALL {
            let answer = operation.merge(&cell.ids, &cell.other);
            let mut race = Race::new();
            for (pair, [a, b]) in PAIRS.iter().zip(&wires) {
                let ids = (pair.ids)(&(pair.run)(operation, a, b));
                assert!(ids == answer, "{}, {}: {}", cell.name, operation.name(), pair.name);
                race.enter(|| (pair.run)(operation, a, b));
            }
            for (row, seconds) in rows.iter_mut().zip(race.run(EACH)) {
                row.push(table::millis(seconds));
            }
        }
    }
    let columns = cells
        .iter()
        .flat_map(|cell| Operation::ALL.map(|operation| format!("{}: {}", cell.name, operation.name())));
    let header: Vec<String> = iter::once(String::new()).chain(columns).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table::print("Set operations from bytes to bytes, ms", &header, &rows);
}
