//! Messages of clients and of other nodes: decoded, converted, bound to a table, and run over its few rows.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use basalt_core::{
    error::{Error, ErrorKind},
    exec::{self, Control, Merge, Part},
    plan::{Plan, query_text},
    query::Query,
    schema::DataType,
    table::{Snapshot, Table},
};
use basalt_proto::{cluster::v1 as peer, v1 as pb};
use prost::{Message as _, bytes::Bytes};

use super::{TABLES, Tables, parts, script::Script};
use crate::{
    convert::{self, PartReader},
    coordinator::{Waves, execute},
    status::{RequestError, Result},
};

/// What a request may hold.
const MEMORY: usize = 32 << 20;
/// Rows of an answer that are looked at.
const ROWS: usize = 10_000;

fn internal(what: &str, error: &RequestError) {
    assert_ne!(error.reason(), "INTERNAL", "{what}: {error:?}");
}

/// What another node has sent may be no part of an answer, which is INTERNAL to whoever has asked this one.
fn internal_but_corrupt(error: Error) {
    if error.kind() != ErrorKind::Corrupt {
        internal("part", &error.into());
    }
}

/// A query as a message, or as a script of one: it gives the same answer at once and in parts.
pub(super) fn query(data: &[u8]) {
    let request = match data.split_first() {
        Some((kind, data)) if kind & 1 == 0 => match pb::QueryRequest::decode(data) {
            Ok(request) => request,
            Err(_) => return,
        },
        Some((_, data)) => Script::new(data).query(),
        None => return,
    };
    let Tables { catalog, all, snapshot, sets } = &*TABLES;
    let control = Control::with_memory(MEMORY);
    let (mut query, _) = match convert::query(request, sets) {
        Ok(query) => query,
        Err(error) => return internal("convert", &error),
    };
    let ends = query.limit.is_some_and(|limit| limit < ROWS as u64);
    if exec::resolve(catalog, all, snapshot, &mut query, &control).is_err() {
        return;
    }
    let Ok(plan) = Plan::new(all, snapshot, &query) else { return };
    drop(query_text("t", &query));
    let _ = plan.estimate(snapshot);
    // What another node is asked is what was asked here.
    let whole = |_: &str, set: &basalt_core::query::KeySet| Arc::clone(&set.sip);
    let (sent, given) = convert::to_query(&query, "t", snapshot.version(), &whole);
    let (mut again, _) = convert::query(sent, sets).expect("what is sent is read");
    exec::place_sets(&mut again, given).expect("the sets that were taken out");

    let alone = run(&plan, snapshot, &control);
    let together = run_in_parts(&plan, snapshot);
    match (alone, together) {
        (Ok(alone), Ok(together)) => {
            let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            assert_eq!(rows(&alone), rows(&together), "{query:?}");
            if let ([alone], [together]) = (&*alone, &*together) {
                assert_eq!(alone.columns(), together.columns(), "{query:?}");
            }
        }
        (Err(_), Err(_)) => {}
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => {
            // What is behind the last row that is wanted may be read, or not.
            let is_of_memory = error.kind() == ErrorKind::MemoryLimit;
            assert!(is_of_memory || ends, "{error}: {query:?}");
        }
    }
}

fn run(plan: &Plan, snapshot: &Snapshot, control: &Control) -> std::result::Result<Vec<RecordBatch>, Error> {
    let mut batches = Vec::new();
    plan.run(snapshot, control, &mut |batch| {
        convert::to_ipc(&batch).expect("an answer has a form");
        convert::to_rows(&batch).expect("an answer has a form");
        batches.push(batch);
        Ok(())
    })?;
    Ok(batches)
}

fn run_in_parts(plan: &Plan, snapshot: &Snapshot) -> std::result::Result<Vec<RecordBatch>, Error> {
    let control = Control::with_memory(MEMORY);
    let ids: Vec<u32> = snapshot.fragments().iter().map(basalt_core::fragment::Fragment::id).collect();
    let (reader, mut messages) = (PartReader::new(plan), Vec::new());
    plan.run_part(snapshot, &control, &mut |part| {
        convert::to_messages(part, &mut |message| {
            messages.push(message);
            Ok(())
        })
        .expect("a part has a form");
        Ok(())
    })?;
    let (control, mut batches) = (Control::with_memory(MEMORY), Vec::new());
    let mut merge = Merge::new(plan, &control)?;
    for message in messages {
        for part in reader.read(message).expect("a part is read") {
            merge.add(part, &ids)?;
        }
    }
    merge.finish(&mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(batches)
}

/// The rows of the table, at once.
struct AtOnce(Option<Arc<Snapshot>>);

impl Waves for AtOnce {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&TABLES.all)
    }

    fn none(&self) -> Snapshot {
        Snapshot::new(TABLES.snapshot.version(), Vec::new())
    }

    fn next(&mut self, _: &[usize]) -> Result<Option<Arc<Snapshot>>> {
        Ok(self.0.take())
    }
}

/// A task of another node, and the bytes of its sets behind it.
pub(super) fn task(data: &[u8]) {
    let parts = parts(data);
    let Some((task, data)) = parts.split_first() else { return };
    let Ok(task) = peer::Task::decode(*task) else { return };
    let data: Vec<Bytes> = data.iter().map(|bytes| Bytes::copy_from_slice(bytes)).collect();
    let mut waves = AtOnce(Some(Arc::clone(&TABLES.snapshot)));
    let control = Control::with_memory(MEMORY);
    let done = execute(&mut waves, task, &data, &TABLES.sets, &control, &mut |_| Ok(()));
    if let Err(error) = done {
        internal("task", &error);
    }
}

/// Plans whose parts are of all kinds.
pub(super) static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let plan = |script: &[u8]| {
        let request = Script::new(script).query();
        let (query, _) = convert::query(request, &TABLES.sets).ok()?;
        Plan::new(&TABLES.all, &TABLES.snapshot, &query).ok()
    };
    super::seeds::SCRIPTS.iter().filter_map(|script| plan(script)).collect()
});

/// Messages of another node with the parts of an answer to one of some plans.
pub(super) fn part(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let plan = &PLANS[usize::from(*kind) % PLANS.len()];
    let ids: Vec<u32> = TABLES.snapshot.fragments().iter().map(basalt_core::fragment::Fragment::id).collect();
    let control = Control::with_memory(MEMORY);
    let (reader, Ok(mut merge)) = (PartReader::new(plan), Merge::new(plan, &control)) else { return };
    for message in parts(data) {
        let parts: Vec<Part> = match reader.read(Bytes::copy_from_slice(message)) {
            Ok(parts) => parts,
            Err(error) => return internal("part", &error),
        };
        for part in parts {
            if let Err(error) = merge.add(part, &ids) {
                return internal_but_corrupt(error);
            }
        }
    }
    let mut rows = 0;
    let done = merge.finish(&mut |batch| {
        rows += batch.num_rows();
        convert::to_ipc(&batch).expect("an answer has a form");
        Ok(())
    });
    if let Err(error) = done {
        internal_but_corrupt(error);
    }
}

/// What makes tables, and sets.
pub(super) fn message(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let bytes = Bytes::copy_from_slice(data);
    match kind % 5 {
        0 => {
            let Ok(request) = pb::CreateTableRequest::decode(bytes) else { return };
            let Ok(optimize) = convert::from_optimize(request.optimize) else { return };
            drop(convert::from_deletes(request.deletes));
            let Ok(schema) = convert::from_schema(request.schema.unwrap_or_default(), optimize) else {
                return;
            };
            if let Some(retention) = &request.retention {
                drop(convert::from_retention(retention, &schema));
            }
            let again = convert::from_schema(convert::to_schema(&schema), None);
            assert_eq!(again.expect("a schema is read again").fields().len(), schema.fields().len());
        }
        1 => {
            let Ok(request) = pb::PutSipRequest::decode(bytes) else { return };
            drop(convert::scope(request.scope));
            if let Ok(sip) = convert::sip(request.sip) {
                drop(convert::to_sip(&sip));
            }
        }
        2 => {
            let parts = parts(data);
            let [head, bytes, ..] = &*parts else { return };
            let Ok(head) = peer::JoinSet::decode(*head) else { return };
            if let Ok(set) = convert::join_set(&head, &Bytes::copy_from_slice(bytes)) {
                let (head, bytes) = convert::to_join_set(&set);
                assert_eq!(convert::join_set(&head, &bytes).expect("a set is read again"), set);
            }
        }
        3 => {
            for data_type in DataType::KINDS {
                drop(convert::values(data_type, &bytes));
            }
        }
        _ => {
            let Ok(request) = pb::DeleteRequest::decode(bytes) else { return };
            let Ok(filter) = convert::filter(request.filter, &request.table, &TABLES.sets) else { return };
            let query = Query { filter, ..Query::default() };
            drop(Plan::filter_columns(&TABLES.all, &TABLES.snapshot, query.filter.as_ref()));
        }
    }
}
