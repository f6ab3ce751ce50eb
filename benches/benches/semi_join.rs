//! Semi-joins between nodes: what the build side ships as a SIP beside its keys as 64-bit ids and its rows; and what it
//! costs to answer in parts.
//!
//! `cargo bench --profile dist -p basalt-benches --bench semi_join`; `-- --small` for a quick look.

use std::{error::Error, sync::Arc, time::Duration};

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use basalt_benches::{
    table::{self, figure, grouped},
    timing::{self, Race},
};
use basalt_core::{
    exec::{BuiltSet, Control, Merge, Part, select_values},
    fragment::Fragment,
    plan::Plan,
    query::{Aggregate, AggregateFunction, CompareOp, Expr, Filter, Literal, Query, SelectItem},
    schema::{DataType, Field, Schema},
    table::{Appender, Catalog, Snapshot, Table},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

/// Rows of the build side, and of the table that is answered in parts.
const ROWS: (usize, usize) = (1 << 20, 1 << 23);
const FEW: (usize, usize) = (1 << 16, 1 << 17);
/// Fragments of a table.
const FRAGMENTS: usize = 8;
/// Shares of the keys that the build side selects.
const SHARES: [f64; 8] = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5];
/// What each contender gets of a query's time.
const EACH: Duration = Duration::from_millis(500);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let (build, probe) = if timing::small() { FEW } else { ROWS };
    shipped(build)?;
    parts(probe)
}

/// How the selected keys lie among all.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// In runs of 4,096, as where the table is clustered by what the filter asks.
    Clustered,
    /// Each by itself.
    Scattered,
}

/// Numbers of rows in an order in which the first of any share lie so.
fn ranks(rows: usize, lie: Lie) -> Vec<i64> {
    let run = if let Lie::Clustered = lie { 4096 } else { 1 };
    let mut runs: Vec<usize> = (0..rows.div_ceil(run)).collect();
    runs.shuffle(&mut StdRng::seed_from_u64(7));
    let mut ranks = vec![0; rows];
    let order = runs.into_iter().flat_map(|i| i * run..((i + 1) * run).min(rows));
    order.zip(0..).for_each(|(row, rank)| ranks[row] = rank);
    ranks
}

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

/// A table in [`FRAGMENTS`] fragments.
fn load(name: &str, fields: Vec<Field>, arrays: Vec<ArrayRef>) -> Outcome<Arc<Table>> {
    let table = Catalog::new().create(name, Schema::new(fields)?)?;
    let batch = RecordBatch::try_new(table.schema().to_arrow(), arrays)?;
    let (mut fragments, rows) = (Vec::new(), batch.num_rows().div_ceil(FRAGMENTS));
    for (id, start) in (0..).zip((0..batch.num_rows()).step_by(rows)) {
        let mut appender = Appender::new(Arc::clone(&table), &[])?;
        appender.push(&batch.slice(start, rows.min(batch.num_rows() - start)))?;
        fragments.extend(appender.finish()?.into_iter().map(|data| Fragment::new(id, data)));
    }
    table.install(Snapshot::new(1, fragments));
    Ok(table)
}

/// Prints the bytes of a build side's answer in its three forms.
fn shipped(rows: usize) -> Outcome<()> {
    let mut lines = Vec::new();
    for lie in [Lie::Clustered, Lie::Scattered] {
        let ids = Int64Array::from_iter_values((0..rows).map_while(|i| i64::try_from(i).ok()));
        let names = (0..rows).map(|i| format!("Customer#{i:09}"));
        let fields = vec![
            field("id", DataType::Int64),
            field("rank", DataType::Int64),
            field("balance", DataType::Float64),
            field("name", DataType::Utf8),
        ];
        let balances =
            ids.values().iter().map(|id| f64::from(i32::try_from(id % 10_007).unwrap_or(0)) / 100.0);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(ids.clone()),
            Arc::new(Int64Array::from(ranks(rows, lie))),
            Arc::new(Float64Array::from_iter_values(balances)),
            Arc::new(StringArray::from_iter_values(names)),
        ];
        let table = load("customers", fields, arrays)?;
        for share in SHARES {
            lines.push(line(&table, rows, lie, share)?);
        }
    }
    let title = format!("what a build side of {} keys ships, bytes", grouped(rows));
    let header = ["keys", "selected", "SIP", "tag", "64-bit ids", "rows", "ids / SIP", "rows / SIP"];
    table::print(&title, &header, &lines);
    Ok(())
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "figures to print")]
fn line(table: &Table, rows: usize, lie: Lie, share: f64) -> Outcome<Vec<String>> {
    let (snapshot, control) = (table.snapshot(), Control::default());
    let first = Expr::Literal(Literal::Int((rows as f64 * share) as i64));
    let filter = Filter::Compare(CompareOp::Lt, Expr::Column("rank".into()), first);
    // What nodes build apart is united, and travels so.
    let mut united = BuiltSet::empty(DataType::Int64);
    for fragment in snapshot.fragments() {
        let own = Snapshot::new(snapshot.version(), vec![fragment.clone()]);
        united = united.union(select_values(table, &own, "id", Some(&filter), &control)?.0)?;
    }
    let BuiltSet::Keys { sip, .. } = united else { return Err("no keys".into()) };
    let query = Query { filter: Some(filter), ..Query::default() };
    let (mut selected, mut row_bytes) = (0, 0);
    Plan::new(table, &snapshot, &query)?.run(&snapshot, &control, &mut |batch| {
        selected += batch.num_rows();
        row_bytes +=
            batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum::<usize>();
        Ok(())
    })?;
    assert_eq!(sip.cardinality(), selected as u64);
    let (bytes, ids) = (sip.as_bytes().len(), 8 * selected);
    Ok(vec![
        format!("{lie:?}").to_lowercase(),
        format!("{} %", figure(share * 100.0)),
        grouped(bytes),
        sip.tag().name().to_owned(),
        grouped(ids),
        grouped(row_bytes),
        figure(ids as f64 / bytes as f64),
        figure(row_bytes as f64 / bytes as f64),
    ])
}

/// Prints what answers in parts cost beside those of one run.
fn parts(rows: usize) -> Outcome<()> {
    let mut rng = StdRng::seed_from_u64(3);
    let mut random = |below: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.random_range(0..below))))
    };
    let (few, many, keys) = (random(1000), random(1 << 20), random(1 << 40));
    let prices: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..99_991).cycle().take(rows).map(|cents| f64::from(cents) / 100.0),
    ));
    let fields = vec![
        field("few", DataType::Int64),
        field("many", DataType::Int64),
        field("keys", DataType::Int64),
        field("price", DataType::Float64),
    ];
    let table = load("orders", fields, vec![few, many, keys, prices])?;
    let aggregate = |function, name: &str, distinct| {
        let argument = Some(Expr::Column(name.into()));
        let expr = Expr::Aggregate(Box::new(Aggregate { function, argument, distinct }));
        SelectItem { expr, name: None }
    };
    use AggregateFunction::{Avg, Count, Max, Sum};
    let grouped_by = |name: &str| Query {
        select: vec![
            SelectItem { expr: Expr::Column(name.into()), name: None },
            aggregate(Sum, "price", false),
            aggregate(Max, "keys", false),
        ],
        group_by: vec![Expr::Column(name.into())],
        ..Query::default()
    };
    let queries = [
        ("sum, average", vec![aggregate(Sum, "keys", false), aggregate(Avg, "price", false)]),
        ("count distinct of 1,000", vec![aggregate(Count, "few", true)]),
        ("count distinct of 1,048,576", vec![aggregate(Count, "many", true)]),
    ];
    let queries = queries.map(|(name, select)| (name, Query { select, ..Query::default() }));
    let groups = [("1,000 groups", grouped_by("few")), ("1,048,576 groups", grouped_by("many"))];
    let mut lines = Vec::new();
    for (name, query) in queries.into_iter().chain(groups) {
        lines.push(parts_line(name, &table, &query)?);
    }
    let title = format!("answers in parts on one node, {} rows, one thread, ms", grouped(rows));
    table::print(&title, &["query", "one run", "in parts", "ratio", "bytes of the parts"], &lines);
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "figures to print")]
fn parts_line(name: &str, table: &Table, query: &Query) -> Outcome<Vec<String>> {
    let (snapshot, control) = (table.snapshot(), Control::default());
    let fragments: Vec<u32> = snapshot.fragments().iter().map(Fragment::id).collect();
    let plan = Plan::new(table, &snapshot, query)?;
    let alone = || -> Outcome<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        plan.run(&snapshot, &control, &mut |batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok(batches)
    };
    let in_parts = || -> Outcome<(Vec<RecordBatch>, usize)> {
        let (mut parts, mut batches, mut merge) = (Vec::new(), Vec::new(), Merge::new(&plan, &control)?);
        plan.run_part(&snapshot, &control, &mut |part| {
            parts.push(part);
            Ok(())
        })?;
        let bytes =
            parts.iter().map(|part| if let Part::Groups(bytes) = part { bytes.len() } else { 0 }).sum();
        for part in parts {
            merge.add(part, &fragments)?;
        }
        merge.finish(&mut |batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok((batches, bytes))
    };
    let (batches, bytes) = in_parts()?;
    assert_eq!(batches, alone()?, "{name}");
    let mut race = Race::default();
    race.enter(|| alone().is_ok());
    race.enter(|| in_parts().is_ok());
    let times = race.run(EACH);
    Ok(vec![
        name.to_owned(),
        table::millis(times[0]),
        table::millis(times[1]),
        figure(times[1] / times[0]),
        grouped(bytes),
    ])
}
