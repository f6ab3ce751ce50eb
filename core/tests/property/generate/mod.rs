//! Random tables and queries, valid by construction; whether values exist (a division by zero, an overflow) is
//! left to chance.

mod query;
mod sets;
mod table;

pub(crate) use query::{TypedQuery, query};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
pub(crate) use sets::id_of;
pub(crate) use table::{Contents, contents};

/// One of `choices`, each as likely as its weight.
fn weighted<T: Copy>(rng: &mut StdRng, choices: &[(u32, T)]) -> T {
    choices.choose_weighted(rng, |(weight, _)| *weight).unwrap().1
}

fn one_in(rng: &mut StdRng, n: u32) -> bool {
    rng.random_ratio(1, n)
}
