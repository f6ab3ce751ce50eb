//! Encodings side by side on one cell.

use std::{fmt, time::Duration};

use super::{
    data::Cell,
    encoding::{Bytes, Encoding, Operation},
};
use crate::timing::Race;

/// An encoding as an entry of a list.
#[derive(Clone, Copy)]
pub struct Contender {
    /// Its name, without what it depends on the bytes.
    pub name: &'static str,
    label: fn(&[u8]) -> String,
    encode: fn(&[u64]) -> Bytes,
    check: fn(&Cell, &Wire),
    enter: for<'a> fn(&mut Race<'a>, &'a Cell, &'a Wire),
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Both sets of a cell, encoded.
struct Wire {
    ids: Bytes,
    other: Bytes,
}

/// What an encoding took for a cell.
#[derive(Clone, Debug)]
pub struct Figures {
    /// What to call it in a table.
    pub label: String,
    /// The bytes of the first set.
    pub bytes: usize,
    /// In seconds, in the order of [`MEASURES`].
    pub seconds: [f64; MEASURES.len()],
}

/// What is timed: writing the ids; reading them; the 2,000 probes of a set that was read; intersecting one with the
/// second set, at hand as ids; reading both and intersecting them.
pub const MEASURES: [&str; 5] = ["enc ms", "dec ms", "cnt_2k ms", "isect ms", "both wires ms"];

impl Contender {
    /// Of an encoding.
    pub const fn of<E: Encoding>() -> Self {
        Self { name: E::NAME, label: E::label, encode: E::encode, check: check::<E>, enter: enter::<E> }
    }
}

/// Checks every answer of each contender, then times them against each other.
pub fn race(cell: &Cell, contenders: &[Contender], each: Duration) -> Vec<Figures> {
    let wires: Vec<Wire> = contenders
        .iter()
        .map(|contender| Wire { ids: (contender.encode)(&cell.ids), other: (contender.encode)(&cell.other) })
        .collect();
    let mut race = Race::new();
    for (contender, wire) in contenders.iter().zip(&wires) {
        (contender.check)(cell, wire);
        (contender.enter)(&mut race, cell, wire);
    }
    let seconds = race.run(each);
    let figures = contenders.iter().zip(&wires).zip(seconds.as_chunks().0);
    figures
        .map(|((contender, wire), &seconds)| Figures {
            label: (contender.label)(&wire.ids),
            bytes: wire.ids.len(),
            seconds,
        })
        .collect()
}

fn check<E: Encoding>(cell: &Cell, wire: &Wire) {
    let right = |what: &str, right: bool| assert!(right, "{}, {}: {what}", cell.name, E::NAME);
    let (a, b) = (E::decode(&wire.ids), E::decode(&wire.other));
    right("ids", E::ids(&a) == cell.ids && E::ids(&b) == cell.other);
    right("probes", cell.probes.iter().all(|&id| E::contains(&a, id) == cell.ids.binary_search(&id).is_ok()));
    let answers = |answer, ids: &[u64]| E::ids(&E::decode(&E::write(answer))) == ids;
    let both = Operation::Intersection.merge(&cell.ids, &cell.other);
    right("intersection", answers(E::combine(Operation::Intersection, &a, &b), &both));
    right("of bytes", answers(E::combine_bytes(Operation::Intersection, &wire.ids, &wire.other), &both));
    right("with ids", answers(E::intersect_ids(&a, &cell.other), &both));
}

fn enter<'a, E: Encoding>(race: &mut Race<'a>, cell: &'a Cell, wire: &'a Wire) {
    race.enter(|| E::encode(&cell.ids));
    race.enter(|| E::decode(&wire.ids));
    let set = E::decode(&wire.ids);
    race.enter(move || cell.probes.iter().filter(|&&id| E::contains(&set, id)).count());
    let set = E::decode(&wire.ids);
    race.enter(move || E::intersect_ids(&set, &cell.other));
    race.enter(|| E::combine_bytes(Operation::Intersection, &wire.ids, &wire.other));
}
