//! The same query over the same rows, whose fragments are on one to seven nodes: the same answer to the bit.

use arrow_array::RecordBatch;
use basalt_core::{
    error::{Error, ErrorKind},
    exec::{self, Control, Merge, Part},
    fragment::Fragment,
    plan::Plan,
    query::Query,
    schema::Schema,
    table::Snapshot,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::Loaded;

pub(crate) type Answer = Result<(Schema, Vec<RecordBatch>), Error>;

/// That nodes answer as one process did.
pub(crate) fn check(loaded: &Loaded, query: &Query, alone: &Answer) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(loaded.snapshot.rows());
    for nodes in [1, rng.random_range(2..=7)] {
        let split = Split::new(&loaded.snapshot, nodes, &mut rng);
        let answer = split.answer(loaded, query, &mut rng);
        if !same(&answer, alone) {
            return Err(format!("{nodes} nodes answer otherwise: {answer:?}, alone {alone:?}"));
        }
    }
    Ok(())
}

/// To the bit, wherever the batches end. Of several errors any may come first.
pub(crate) fn same(a: &Answer, b: &Answer) -> bool {
    let of_values = |error: &Error| matches!(error.kind(), ErrorKind::Overflow | ErrorKind::DivisionByZero);
    match (a, b) {
        (Ok((schema, a)), Ok((other, b))) => schema == other && rows(a) == rows(b),
        (Err(a), Err(b)) => a.kind() == b.kind() || (of_values(a) && of_values(b)),
        _ => false,
    }
}

/// Every row with the bits of its values.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let row = |(batch, row): (&RecordBatch, usize)| format!("{:?}", batch.slice(row, 1).columns());
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row))).map(row).collect()
}

/// A snapshot whose fragments are on several nodes.
struct Split {
    nodes: Vec<(Snapshot, Vec<u32>)>,
}

impl Split {
    fn new(snapshot: &Snapshot, nodes: usize, rng: &mut StdRng) -> Self {
        let mut of_nodes = vec![Vec::new(); nodes];
        for fragment in snapshot.fragments() {
            of_nodes[rng.random_range(0..nodes)].push(fragment.clone());
        }
        let node = |fragments: Vec<Fragment>| {
            let ids = fragments.iter().map(Fragment::id).collect();
            (Snapshot::new(snapshot.version(), fragments), ids)
        };
        Self { nodes: of_nodes.into_iter().map(node).collect() }
    }

    /// Parts come in any order of nodes.
    fn answer(&self, loaded: &Loaded, query: &Query, rng: &mut StdRng) -> Answer {
        let (mut query, control) = (query.clone(), Control::default());
        exec::resolve(&loaded.catalog, &loaded.table, &loaded.snapshot, &mut query, &control)?;
        let plan = Plan::new(&loaded.table, &loaded.snapshot, &query)?;
        let mut merge = Merge::new(&plan, &control)?;
        let mut order: Vec<_> = self.nodes.iter().collect();
        order.shuffle(rng);
        for (snapshot, fragments) in order {
            let mut parts = Vec::new();
            let plan = Plan::new(&loaded.table, snapshot, &query)?;
            plan.run_part(snapshot, &Control::default(), &mut |part| {
                parts.push(part);
                Ok(())
            })?;
            for part in parts {
                if let Part::Groups(bytes) = &part {
                    spoil(&plan, bytes, fragments, rng);
                }
                merge.add(part, fragments)?;
            }
        }
        let mut batches = Vec::new();
        merge.finish(&mut |batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok((plan.schema().clone(), batches))
    }
}

/// Bytes that are not as they were are an error or other groups, and never a panic.
fn spoil(plan: &Plan, bytes: &[u8], fragments: &[u32], rng: &mut StdRng) {
    for _ in 0..4 {
        let mut bytes = bytes.to_vec();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..4) {
                0 => bytes[at] ^= 1 << rng.random_range(0..8),
                1 => bytes[at] = [0, 0x7f, 0x80, 0xff][rng.random_range(0..4)],
                2 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, rng.random()),
            }
        }
        let control = Control::with_memory(64 << 20);
        let mut merge = Merge::new(plan, &control).unwrap();
        for _ in 0..2 {
            if merge.add(Part::Groups(bytes.clone()), fragments).is_err() {
                return;
            }
        }
        let _ = merge.finish(&mut |_| Ok(()));
    }
}
