//! Random queries on random tables, answered by the engine and by a naive evaluator.
//!
//! `BASALT_PROPERTY_CASES` says how many (3,000 by default); `BASALT_PROPERTY_SEED` runs one case alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod generate;
mod naive;
mod shrink;
mod value;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use arrow_array::{RecordBatch, RecordBatchOptions};
use basalt_core::{
    error::{Error, ErrorKind},
    exec::{self, Control},
    plan::Plan,
    query::{Filter, Query},
    schema::{DataType, Schema},
    table::{Appender, Catalog, Snapshot, Table},
};
use generate::{Contents, TypedQuery};
use rand::{SeedableRng, rngs::StdRng};
use rayon::prelude::*;
use value::Value;

/// The name of the table.
const TABLE: &str = "t";

/// How the difference begins when the engine finds the request itself wrong.
const INVALID: &str = "invalid";

/// Rows up to which a naive answer takes no time worth saving.
const FEW_ROWS: usize = 10_000;

#[test]
fn random_queries_are_answered_as_the_naive_evaluator_does() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let cases = number("BASALT_PROPERTY_CASES").unwrap_or(3000);
    let seeds = number("BASALT_PROPERTY_SEED").map_or(0..cases, |seed| seed..seed + 1);
    // In parallel to save time; the first failure by seed is reported.
    let failure = seeds.into_par_iter().find_map_first(|seed| {
        let (contents, query) = case(seed);
        check(&contents, &query).err().map(|difference| (seed, contents, query, difference))
    });
    if let Some((seed, contents, query, difference)) = failure {
        let (contents, query, difference) = shrink::shrink(contents, query, difference);
        panic!("{}", report(seed, &contents, &query, &difference));
    }
}

fn case(seed: u64) -> (Contents, TypedQuery) {
    let mut rng = StdRng::seed_from_u64(seed);
    let contents = generate::contents(&mut rng);
    let (_, snapshot) = load(&contents);
    let query = generate::query(&mut rng, &contents, &addresses(&snapshot));
    (contents, query)
}

fn report(seed: u64, contents: &Contents, query: &TypedQuery, difference: &str) -> String {
    use std::fmt::Write;
    let mut text = format!("BASALT_PROPERTY_SEED={seed}: {difference}\n");
    for field in &contents.fields {
        let nullable = if field.nullable { "" } else { " not null" };
        writeln!(text, "  {} {}{nullable} {:?}", field.name, field.data_type, field.encoding).unwrap();
    }
    writeln!(text, "  commits {:?}", contents.commits).unwrap();
    contents.rows.iter().take(30).for_each(|row| writeln!(text, "  {row:?}").unwrap());
    write!(text, "  {} rows\n{:#?}", contents.rows.len(), query.query).unwrap();
    text
}

/// A table with these contents, written as they say.
fn load(contents: &Contents) -> (Arc<Table>, Arc<Snapshot>) {
    let schema = Schema::new(contents.fields.clone()).unwrap();
    let table = Catalog::new().create(TABLE, schema).unwrap();
    let mut rest = contents.rows.as_slice();
    for n in &contents.commits {
        let rows;
        (rows, rest) = rest.split_at(*n);
        let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
        // Two batches: their border is nowhere in particular.
        for rows in [&rows[..n / 3], &rows[n / 3..]] {
            appender.push(&batch(contents, rows)).unwrap();
        }
        appender.commit().unwrap();
    }
    let snapshot = table.snapshot();
    (table, snapshot)
}

fn batch(contents: &Contents, rows: &[Vec<Value>]) -> RecordBatch {
    let columns = contents.fields.iter().enumerate();
    let arrays = columns.map(|(i, field)| value::to_array(rows.iter().map(|row| &row[i]), field.data_type));
    let schema = Schema::new(contents.fields.clone()).unwrap().to_arrow();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema, arrays.collect(), &options).unwrap()
}

/// Where the engine put the rows, in their order.
fn addresses(snapshot: &Snapshot) -> Vec<u64> {
    let fragments = snapshot.fragments().iter();
    fragments.flat_map(|fragment| (0..fragment.rows()).map(|row| fragment.address(row))).collect()
}

/// That the engine and the naive evaluator agree; what differs otherwise.
fn check(contents: &Contents, query: &TypedQuery) -> Result<(), String> {
    let compare = || {
        let (table, snapshot) = load(contents);
        let addresses = addresses(&snapshot);
        let naive = naive::Table { fields: &contents.fields, rows: &contents.rows, addresses: &addresses };
        check_answer(&table, &snapshot, &naive, query)?;
        match &query.query.filter {
            Some(filter) if contents.rows.len() < FEW_ROWS => {
                check_selection(&table, &snapshot, &naive, filter)
            }
            _ => Ok(()),
        }
    };
    catch_unwind(AssertUnwindSafe(compare)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", message.or(panic.downcast_ref::<&str>().copied()).unwrap_or("")))
    })
}

fn check_answer(
    table: &Table,
    snapshot: &Snapshot,
    naive: &naive::Table<'_>,
    query: &TypedQuery,
) -> Result<(), String> {
    let answered = answer(table, snapshot, &query.query);
    if let Err(error) = &answered
        && matches!(
            error.kind(),
            ErrorKind::InvalidQuery | ErrorKind::ScopeMismatch | ErrorKind::ColumnNotFound
        )
    {
        return Err(format!("{INVALID}: {error}"));
    }
    let expected = naive::answer(naive, &query.query);
    if naive.rows.len() > FEW_ROWS {
        // To the bit, floats included.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = pool.install(|| answer(table, snapshot, &query.query));
        if format!("{alone:?}") != format!("{answered:?}") {
            return Err("one thread answers otherwise than many".to_owned());
        }
    }
    let Some((schema, batches)) = allowed(answered, &expected)? else { return Ok(()) };
    let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type).collect();
    if types != query.types {
        return Err(format!("types {types:?}, expected {:?}", query.types));
    }
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
    let rows = rows.map(|(batch, row)| {
        types
            .iter()
            .enumerate()
            .map(|(i, data_type)| value::from_array(batch.column(i), row, *data_type))
            .collect()
    });
    same_rows(&rows.collect::<Vec<_>>(), &expected.rows)
}

fn answer(table: &Table, snapshot: &Snapshot, query: &Query) -> Result<(Schema, Vec<RecordBatch>), Error> {
    let plan = Plan::new(table, snapshot, query)?;
    let mut batches = Vec::new();
    plan.run(snapshot, &Control::default(), &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok((plan.schema().clone(), batches))
}

fn check_selection(
    table: &Table,
    snapshot: &Snapshot,
    naive: &naive::Table<'_>,
    filter: &Filter,
) -> Result<(), String> {
    let expected = naive::select(naive, filter);
    let selected = exec::select(table, snapshot, Some(filter), &Control::default());
    let Some((sip, _)) = allowed(selected, &expected)? else { return Ok(()) };
    let rows: Vec<Vec<Value>> = sip.iter().map(|id| vec![Value::Int(id.into())]).collect();
    same_rows(&rows, &expected.rows).map_err(|difference| format!("select: {difference}"))
}

/// The engine's result if there is one to compare; an unexpected error, or one that is missing, is a
/// difference.
fn allowed<T>(result: Result<T, Error>, expected: &naive::Answer) -> Result<Option<T>, String> {
    match result {
        Err(error) if expected.may_fail.contains(&error.kind()) => Ok(None),
        Err(error) => Err(format!("unexpected {:?}: {error}", error.kind())),
        Ok(_) if expected.must_fail => Err(format!("no error; expected one of {:?}", expected.may_fail)),
        Ok(answer) => Ok(Some(answer)),
    }
}

fn same_rows(actual: &[Vec<Value>], expected: &[Vec<Value>]) -> Result<(), String> {
    let agree = |(a, e): (&Vec<Value>, &Vec<Value>)| {
        a.len() == e.len() && e.iter().zip(a).all(|(e, a)| value::agrees(e, a))
    };
    match actual.iter().zip(expected).position(|pair| !agree(pair)) {
        Some(i) => Err(format!("row {i} is {:?}, expected {:?}", actual[i], expected[i])),
        None if actual.len() != expected.len() => {
            let next = actual.get(expected.len()).or(expected.get(actual.len()));
            Err(format!(
                "{} rows, expected {}; the first that only one has is {next:?}",
                actual.len(),
                expected.len()
            ))
        }
        None => Ok(()),
    }
}
