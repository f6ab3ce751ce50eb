//! Random queries on random tables, answered by the engine and by a naive evaluator.
//!
//! `BASALT_PROPERTY_CASES` says on how many tables (1,000 by default, with [`QUERIES`] queries each, which take less time
//! than to make a table); `BASALT_PROPERTY_SEED` runs one of them alone, `BASALT_PROPERTY_FIRST` begins with another one.
//! `BASALT_PROPERTY_MORE=20` asks tables of few rows twenty times as many.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod elastic;
mod generate;
mod naive;
mod shrink;
mod split;
mod value;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::{RecordBatch, RecordBatchOptions};
use basalt_core::{
    error::{Error, ErrorKind},
    exec::{self, Control},
    fragment::Fragment,
    limits::BLOCK_ROWS,
    mask::{self, Mask},
    plan::Plan,
    query::{Filter, Query},
    schema::{DataType, Schema},
    table::{Appender, Catalog, Change, Snapshot, Table},
};
use basalt_sip::Sip;
use generate::{Contents, TypedQuery};
use rand::{SeedableRng, rngs::StdRng};
use rayon::prelude::*;
use value::Value;

/// The name of the table, and of the one that semi-joins are about.
const TABLE: &str = "t";
const INNER: &str = "u";

/// How the difference begins when the engine finds the request itself wrong.
const INVALID: &str = "invalid";
/// The same where columns have other types than the query says.
const TYPES: &str = "types";

/// Queries for each table.
const QUERIES: usize = 10;

/// Rows up to which a naive answer takes no time worth saving.
const FEW_ROWS: usize = 10_000;

/// Rows below which a query takes as good as no time.
const VERY_FEW_ROWS: usize = 1000;

#[test]
fn random_queries_are_answered_as_the_naive_evaluator_does() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let cases = number("BASALT_PROPERTY_CASES").unwrap_or(1000);
    let first = number("BASALT_PROPERTY_FIRST").unwrap_or(0);
    let seeds = number("BASALT_PROPERTY_SEED").map_or(first..first + cases, |seed| seed..seed + 1);
    // In parallel to save time; the first failure by seed is reported.
    let (more, asked) = (number("BASALT_PROPERTY_MORE").unwrap_or(1), AtomicUsize::new(0));
    let more = usize::try_from(more).unwrap();
    let failure = seeds.into_par_iter().find_map_first(|seed| Some((seed, failure(seed, more, &asked)?)));
    println!("{} queries", asked.load(Ordering::Relaxed));
    if let Some((seed, (contents, query, difference))) = failure {
        println!("seed {seed}: {difference}; it is made smaller");
        let (contents, query, difference) = shrink::shrink(contents, query, difference);
        panic!("{}", report(seed, &contents, &query, &difference));
    }
}

/// The first query of a case that is answered wrong, if there is one.
fn failure(seed: u64, more: usize, asked: &AtomicUsize) -> Option<(Contents, TypedQuery, String)> {
    let mut rng = StdRng::seed_from_u64(seed);
    let contents = generate::contents(&mut rng);
    let loaded = Loaded::new(&contents);
    let queries = match contents.rows.len() {
        ..VERY_FEW_ROWS => QUERIES * more,
        _ => QUERIES,
    };
    for _ in 0..queries {
        let query = generate::query(&mut rng, &contents, &loaded.addresses);
        if let Err(difference) = check(&loaded, &contents, &query) {
            return Some((contents, query, difference));
        }
    }
    asked.fetch_add(queries, Ordering::Relaxed);
    None
}

fn report(seed: u64, contents: &Contents, query: &TypedQuery, difference: &str) -> String {
    use std::fmt::Write;
    let mut text = format!("BASALT_PROPERTY_SEED={seed}: {difference}\n");
    for (name, contents) in [(TABLE, Some(contents)), (INNER, contents.inner.as_deref())]
        .into_iter()
        .filter_map(|(n, c)| Some((n, c?)))
    {
        writeln!(text, "{name}: {} rows in commits {:?}", contents.rows.len(), contents.commits).unwrap();
        let deleted = contents.deleted.iter().enumerate().filter(|(_, deleted)| **deleted);
        let deleted: Vec<usize> = deleted.map(|(row, _)| row).take(30).collect();
        writeln!(text, "  deleted {deleted:?}").unwrap();
        for field in &contents.fields {
            let nullable = if field.nullable { "" } else { " not null" };
            writeln!(text, "  {} {}{nullable} {:?}", field.name, field.data_type, field.encoding).unwrap();
        }
        contents.rows.iter().take(30).for_each(|row| writeln!(text, "  {row:?}").unwrap());
    }
    write!(text, "{:#?}", query.query).unwrap();
    text
}

/// Where the engine put the rows, in their order.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(crate) outer: Vec<u64>,
    pub(crate) inner: Vec<u64>,
}

/// The tables of a case in the engine.
struct Loaded {
    catalog: Catalog,
    table: Arc<Table>,
    snapshot: Arc<Snapshot>,
    addresses: Addresses,
    /// The same rows in faster forms.
    faster: OnceLock<[Arc<Snapshot>; 2]>,
}

impl Loaded {
    fn new(contents: &Contents) -> Self {
        let catalog = Catalog::new();
        let inner = contents.inner.as_deref().map(|inner| load(&catalog, INNER, inner).snapshot());
        let table = load(&catalog, TABLE, contents);
        let snapshot = table.snapshot();
        let inner = inner.as_deref().map_or_else(Vec::new, addresses);
        let addresses = Addresses { outer: addresses(&snapshot), inner };
        Self { catalog, table, snapshot, addresses, faster: OnceLock::new() }
    }

    fn answer(&self, query: &Query) -> Result<(Schema, Vec<RecordBatch>), Error> {
        self.answer_of(&self.snapshot, query)
    }

    /// The answer of a snapshot of the same rows.
    fn answer_of(
        &self,
        snapshot: &Arc<Snapshot>,
        query: &Query,
    ) -> Result<(Schema, Vec<RecordBatch>), Error> {
        let (mut query, control) = (query.clone(), Control::default());
        exec::resolve(&self.catalog, &self.table, snapshot, &mut query, &control)?;
        let plan = Plan::new(&self.table, snapshot, &query)?;
        let mut batches = Vec::new();
        plan.run(snapshot, &control, &mut |batch| {
            batches.push(batch);
            Ok(())
        })?;
        Ok((plan.schema().clone(), batches))
    }

    /// The filter without semi-joins.
    fn resolve(&self, filter: &Filter) -> Result<Filter, Error> {
        let mut filter = filter.clone();
        let control = Control::default();
        exec::resolve_filter(&self.catalog, &self.table, &self.snapshot, &mut filter, &control)?;
        Ok(filter)
    }
}

/// A table with these contents, written as they say.
fn load(catalog: &Catalog, name: &str, contents: &Contents) -> Arc<Table> {
    let schema = Schema::new(contents.fields.clone()).unwrap();
    let table = catalog.create(name, schema).unwrap();
    let mut rest = contents.rows.as_slice();
    let mut deleted = contents.deleted.as_slice();
    for n in &contents.commits {
        let (rows, gone);
        (rows, rest) = rest.split_at(*n);
        (gone, deleted) = deleted.split_at(*n);
        let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
        // Two batches: their border is nowhere in particular.
        for rows in [&rows[..n / 3], &rows[n / 3..]] {
            appender.push(&batch(contents, rows)).unwrap();
        }
        appender.commit().unwrap();
        delete(&table, gone);
    }
    table
}

/// Deletes rows among the last ones.
fn delete(table: &Table, gone: &[bool]) {
    let snapshot = table.snapshot();
    let addresses = addresses(&snapshot);
    let last = &addresses[addresses.len() - gone.len()..];
    let gone = last.iter().zip(gone).filter(|(_, gone)| **gone).map(|(address, _)| *address);
    let gone = Sip::from_ids(gone);
    let was: Vec<_> = snapshot.fragments().iter().filter(|f| f.delete(&gone).is_some()).cloned().collect();
    let is: Vec<_> = was.iter().filter_map(|fragment| Some(fragment.delete(&gone)?.0)).collect();
    if !was.is_empty() {
        table.commit(Change { was, is, ..Change::default() }).unwrap();
    }
}

fn batch(contents: &Contents, rows: &[Vec<Value>]) -> RecordBatch {
    let columns = contents.fields.iter().enumerate();
    let arrays = columns.map(|(i, field)| value::to_array(rows.iter().map(|row| &row[i]), field.data_type));
    let schema = Schema::new(contents.fields.clone()).unwrap().to_arrow();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema, arrays.collect(), &options).unwrap()
}

fn addresses(snapshot: &Snapshot) -> Vec<u64> {
    let live = |fragment: &Fragment, row: usize| match fragment.live(row / BLOCK_ROWS) {
        Mask::Empty => false,
        Mask::Full => true,
        Mask::Words(words) => mask::selects(Some(words.as_slice()), row % BLOCK_ROWS),
    };
    let fragments = snapshot.fragments().iter();
    let rows = fragments.flat_map(|fragment| (0..fragment.rows()).map(move |row| (fragment, row)));
    rows.filter(|(fragment, row)| live(fragment, *row)).map(|(fragment, row)| fragment.address(row)).collect()
}

/// That the engine and the naive evaluator agree; what differs otherwise.
fn check(loaded: &Loaded, contents: &Contents, query: &TypedQuery) -> Result<(), String> {
    let compare = || {
        let (rows, inner_rows) = (contents.live(), contents.inner.as_ref().map(|inner| inner.live()));
        let inner = contents.inner.as_ref().map(|inner| naive::Table {
            name: INNER,
            inner: None,
            fields: &inner.fields,
            rows: inner_rows.as_deref().unwrap_or_default(),
            addresses: &loaded.addresses.inner,
        });
        let naive = naive::Table {
            name: TABLE,
            inner: inner.as_ref(),
            fields: &contents.fields,
            rows: &rows,
            addresses: &loaded.addresses.outer,
        };
        check_answer(loaded, &naive, query)?;
        if contents.rows.len() < FEW_ROWS {
            if let Some(filter) = &query.query.filter {
                check_selection(loaded, &naive, filter)?;
            }
            check_keys(loaded, &naive, query.query.filter.as_ref())?;
        }
        Ok(())
    };
    caught(compare)
}

/// The same for a table that is still to be made.
fn check_alone(contents: &Contents, query: &TypedQuery) -> Result<(), String> {
    caught(|| check(&Loaded::new(contents), contents, query))
}

fn caught(compare: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(compare)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", message.or(panic.downcast_ref::<&str>().copied()).unwrap_or("")))
    })
}

fn check_answer(loaded: &Loaded, naive: &naive::Table<'_>, query: &TypedQuery) -> Result<(), String> {
    let answered = loaded.answer(&query.query);
    if let Err(error) = &answered
        && matches!(
            error.kind(),
            ErrorKind::InvalidQuery
                | ErrorKind::ScopeMismatch
                | ErrorKind::ColumnNotFound
                | ErrorKind::TableNotFound
                | ErrorKind::VersionGone
        )
    {
        return Err(format!("{INVALID}: {error}"));
    }
    let expected = naive::answer(naive, &query.query);
    if naive.rows.len() > FEW_ROWS {
        // To the bit, floats included.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = pool.install(|| loaded.answer(&query.query));
        if format!("{alone:?}") != format!("{answered:?}") {
            return Err("one thread answers otherwise than many".to_owned());
        }
    }
    split::check(loaded, &query.query, &answered)?;
    elastic::check(loaded, &query.query, &answered)?;
    let Some((schema, batches)) = allowed(answered, &expected)? else { return Ok(()) };
    let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type).collect();
    if types != query.types {
        return Err(format!("{TYPES} {types:?}, expected {:?}", query.types));
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

fn check_selection(loaded: &Loaded, naive: &naive::Table<'_>, filter: &Filter) -> Result<(), String> {
    let expected = naive::select(naive, filter);
    let selected = loaded
        .resolve(filter)
        .and_then(|filter| exec::select(&loaded.table, &loaded.snapshot, Some(&filter), &Control::default()));
    let Some((sip, _)) = allowed(selected, &expected)? else { return Ok(()) };
    let rows: Vec<Vec<Value>> = sip.iter().map(|id| vec![Value::Int(id.into())]).collect();
    same_rows(&rows, &expected.rows).map_err(|difference| format!("select: {difference}"))
}

/// The distinct values of each column that has a key domain.
fn check_keys(loaded: &Loaded, naive: &naive::Table<'_>, filter: Option<&Filter>) -> Result<(), String> {
    for field in naive.fields.iter().filter(|field| field.data_type.has_key_domain()) {
        let expected = naive::keys(naive, &field.name, filter);
        let selected = filter.map(|filter| loaded.resolve(filter)).transpose().and_then(|filter| {
            let (table, snapshot) = (&loaded.table, &loaded.snapshot);
            exec::select_keys(table, snapshot, &field.name, filter.as_ref(), &Control::default())
        });
        let Some((keys, _)) = allowed(selected, &expected)? else { continue };
        let mut ids = expected.rows;
        let has_null = ids.pop_if(|row| row[0] == Value::Null).is_some();
        let id = |row: Vec<Value>| generate::id_of(row[0].integer().unwrap(), field.data_type);
        let mut ids: Vec<u64> = ids.into_iter().map(id).collect();
        ids.sort_unstable();
        let actual: Vec<u64> = keys.sip.iter().collect();
        if (keys.data_type, keys.has_null, &actual) != (field.data_type, has_null, &ids) {
            let name = &field.name;
            return Err(format!("keys of {name}: {keys:?} {actual:?}, expected {ids:?}, null {has_null}"));
        }
    }
    Ok(())
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
