//! Rendezvous hashing: which nodes hold a fragment, and in which order others take its place.
//!
//! Every node gets a number for every fragment, and the nodes with the highest hold it (Thaler and Ravishankar,
//! "Using name-based mappings to increase hit rates", 1998). So nodes agree without talking, and one that joins or
//! leaves moves only the fragments that it gains or loses.

/// The fragment id by which a table itself is placed: on the node that does its background work.
pub(crate) const TABLE: u64 = u64::MAX;

/// A node's name, hashed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u64);

impl Seed {
    /// Of the name, as its bytes stand: eight at a time, little-endian, the last filled up with zeros.
    pub(crate) fn of(name: &str) -> Self {
        let word = |chunk: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(bytes)
        };
        Self(name.as_bytes().chunks(8).fold(mix(name.len() as u64), |hash, chunk| mix(hash ^ word(chunk))))
    }

    /// The node's number for a fragment of a table.
    pub(crate) fn score(self, table: u64, fragment: u64) -> u64 {
        self.of_table(table).score(fragment)
    }

    /// The part of that which is the same for all fragments of a table.
    pub(crate) fn of_table(self, table: u64) -> TableSeed {
        TableSeed(mix(self.0 ^ table))
    }
}

/// A node's name and a table, hashed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableSeed(u64);

impl TableSeed {
    /// The node's number for a fragment of the table.
    pub(crate) fn score(self, fragment: u64) -> u64 {
        mix(self.0 ^ fragment)
    }
}

/// The place of the first node, of those that `among` wants, in the order in which they hold a fragment, in a step for each
/// node.
pub(crate) fn first(seeds: &[TableSeed], fragment: u64, among: impl Fn(usize) -> bool) -> Option<usize> {
    let mut found = None;
    for (place, seed) in seeds.iter().enumerate() {
        let score = seed.score(fragment);
        if found.is_none_or(|(_, best)| score > best) && among(place) {
            found = Some((place, score));
        }
    }
    found.map(|(place, _)| place)
}

/// Whether a node may be asked for a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Good,
    /// After all others.
    Doubtful,
    /// Not, or not again.
    Out,
}

/// The place of the node to ask for a fragment: this one, at `own`, if it is among the `replicas` that hold it; else the
/// first in their order of those that are well, else the first of those in doubt. It takes a step for each node.
pub(crate) fn choose(
    seeds: &[TableSeed],
    (own, replicas): (usize, usize),
    fragment: u64,
    health: impl Fn(usize) -> Health,
) -> Option<usize> {
    let own_score = seeds[own].score(fragment);
    let (mut before_own, mut good, mut doubtful) = (0, None, None);
    for (place, seed) in seeds.iter().enumerate() {
        let score = seed.score(fragment);
        before_own += usize::from(score > own_score || (score == own_score && place < own));
        let best: &mut Option<(usize, u64)> = match health(place) {
            Health::Good => &mut good,
            Health::Doubtful => &mut doubtful,
            Health::Out => continue,
        };
        if best.is_none_or(|(_, best)| score > best) {
            *best = Some((place, score));
        }
    }
    if before_own < replicas && health(own) == Health::Good {
        return Some(own);
    }
    good.or(doubtful).map(|(place, _)| place)
}

/// One step of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the input moves half of the output's.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The nodes in the order in which they hold a fragment: the places of `seeds`, highest number first. Equal
/// numbers keep the order of `seeds`, which is that of the names. Requests find the [first](choose) alone.
#[cfg(test)]
pub(crate) fn order(seeds: &[Seed], table: u64, fragment: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..seeds.len()).collect();
    places.sort_by_cached_key(|&place| std::cmp::Reverse(seeds[place].score(table, fragment)));
    places
}

/// Whether the node at `place` is among the first `replicas` for a fragment.
pub(crate) fn holds(seeds: &[Seed], place: usize, replicas: usize, table: u64, fragment: u64) -> bool {
    let own = seeds[place].score(table, fragment);
    let before = |(other, seed): (usize, &Seed)| {
        let score = seed.score(table, fragment);
        score > own || (score == own && other < place)
    };
    seeds.iter().enumerate().filter(|&other| before(other)).count() < replicas
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seeds(names: &[&str]) -> Vec<Seed> {
        names.iter().map(|name| Seed::of(name)).collect()
    }

    /// Nodes of different builds must agree: these numbers never change.
    #[test]
    fn golden_numbers() {
        let scores =
            |name: &str| [(1, 0), (1, 1), (u64::MAX, TABLE)].map(|(t, f)| Seed::of(name).score(t, f));
        assert_eq!(scores(""), GOLDEN[0]);
        assert_eq!(scores("node1:7701"), GOLDEN[1]);
        assert_eq!(scores("10.0.0.17:7701"), GOLDEN[2]);
        let names = seeds(&["node1:7701", "node2:7701", "node3:7701"]);
        let firsts: Vec<usize> = (0..12).map(|fragment| order(&names, 42, fragment)[0]).collect();
        assert_eq!(firsts, FIRSTS);
    }

    const GOLDEN: [[u64; 3]; 3] = [
        [0x44e5_b981_00c6_7fb0, 0x4653_9195_8fc6_1f13, 0x6669_8ca2_f49c_fee7],
        [0x87a7_9d15_82a1_87d3, 0x041d_63cd_92f9_e400, 0x7f7e_ce8c_d737_7587],
        [0x64c0_0e03_59f0_4a8a, 0x136f_7e81_3eb3_4700, 0xf205_ee41_4503_2d08],
    ];
    const FIRSTS: [usize; 12] = [0, 2, 0, 1, 2, 0, 0, 0, 1, 1, 0, 0];

    #[test]
    fn shares_are_even() {
        for nodes in [2, 3, 5, 7] {
            let names: Vec<String> = (0..nodes).map(|n| format!("node{n}:7701")).collect();
            let seeds: Vec<Seed> = names.iter().map(|name| Seed::of(name)).collect();
            let mut shares = vec![0_u32; nodes];
            let fragments = 20_000;
            (0..fragments).for_each(|fragment| shares[order(&seeds, 7, fragment)[0]] += 1);
            let fair = f64::from(20_000_u32) / nodes as f64;
            for share in shares {
                assert!((f64::from(share) / fair - 1.0).abs() < 0.06, "{share} of {fair}");
            }
        }
    }

    fn names() -> impl Strategy<Value = Vec<String>> {
        prop::collection::btree_set("[a-z0-9.:]{1,24}", 1..9).prop_map(|names| names.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_node_that_joins_takes_its_share_and_moves_nothing_else(
            names in names(), newcomer in "[A-Z]{1,9}", table: u64, fragment: u64
        ) {
            let mut more = names.clone();
            more.push(newcomer);
            let seeds: Vec<Seed> = more.iter().map(|name| Seed::of(name)).collect();
            let with = order(&seeds, table, fragment);
            let without = order(&seeds[..names.len()], table, fragment);
            let rest: Vec<usize> = with.iter().copied().filter(|place| *place < names.len()).collect();
            prop_assert_eq!(rest, without);
        }

        #[test]
        fn the_order_is_of_the_names_not_of_their_places(names in names(), table: u64, fragment: u64) {
            let seeds: Vec<Seed> = names.iter().map(|name| Seed::of(name)).collect();
            let reversed: Vec<Seed> = seeds.iter().rev().copied().collect();
            let (forth, back) = (order(&seeds, table, fragment), order(&reversed, table, fragment));
            let back: Vec<usize> = back.into_iter().map(|place| names.len() - 1 - place).collect();
            prop_assert_eq!(forth, back);
        }

        #[test]
        fn the_first_is_the_first_of_the_order(
            names in names(), table: u64, fragment: u64, dead in prop::collection::btree_set(0_usize..9, 0..9)
        ) {
            let seeds: Vec<Seed> = names.iter().map(|name| Seed::of(name)).collect();
            let of_table: Vec<TableSeed> = seeds.iter().map(|seed| seed.of_table(table)).collect();
            let lives = |place: &usize| !dead.contains(place);
            let expected = order(&seeds, table, fragment).into_iter().find(lives);
            prop_assert_eq!(first(&of_table, fragment, |place| lives(&place)), expected);
        }

        #[test]
        fn those_that_are_chosen_are_holders_then_others_and_the_doubtful_last(
            names in names(), table: u64, fragment: u64, own in 0_usize..9, replicas in 0_usize..5,
            health in prop::collection::vec(0_u8..3, 9)
        ) {
            let seeds: Vec<Seed> = names.iter().map(|name| Seed::of(name)).collect();
            let of_table: Vec<TableSeed> = seeds.iter().map(|seed| seed.of_table(table)).collect();
            let own = own % seeds.len();
            let health: Vec<Health> = health.into_iter().enumerate().map(|(place, health)| match health {
                _ if place == own => Health::Good,
                0 => Health::Good,
                1 => Health::Doubtful,
                _ => Health::Out,
            }).collect();
            let order = order(&seeds, table, fragment).into_iter().enumerate();
            let mut expected: Vec<_> = order.filter(|(_, place)| health[*place] != Health::Out).collect();
            expected.sort_by_key(|(rank, place)| {
                let loads = *rank >= replicas;
                (health[*place] == Health::Doubtful, loads, *place != own || loads, *rank)
            });
            let expected: Vec<usize> = expected.into_iter().map(|(_, place)| place).collect();
            // Each that was asked, and has not answered, is not asked again.
            let mut chosen = Vec::new();
            while let Some(place) = choose(&of_table, (own, replicas), fragment, |place| {
                if chosen.contains(&place) { Health::Out } else { health[place] }
            }) {
                chosen.push(place);
            }
            prop_assert_eq!(chosen, expected);
        }

        #[test]
        fn the_first_of_the_order_hold(names in names(), table: u64, fragment: u64, replicas in 0_usize..5) {
            let seeds: Vec<Seed> = names.iter().map(|name| Seed::of(name)).collect();
            let order = order(&seeds, table, fragment);
            for (rank, place) in order.into_iter().enumerate() {
                prop_assert_eq!(holds(&seeds, place, replicas, table, fragment), rank < replicas);
            }
        }
    }
}
