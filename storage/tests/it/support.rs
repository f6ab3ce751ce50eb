//! Tables for the tests.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type};
use basalt_core::schema::{DataType, Field, Schema};
use basalt_storage::{Change, CommitError, Committed, Store, TableLog, TableState};

/// `n` int64, `text` utf8 nullable.
pub(crate) fn schema() -> Arc<Schema> {
    let fields = vec![Field::new("n", DataType::Int64, false), Field::new("text", DataType::Utf8, true)];
    Arc::new(Schema::new(fields).unwrap())
}

/// Rows of [`schema`]: the numbers, and their texts, apart from every third.
pub(crate) fn batch(numbers: impl IntoIterator<Item = i64>) -> RecordBatch {
    let numbers: Vec<i64> = numbers.into_iter().collect();
    let texts = numbers.iter().map(|n| (n % 3 != 0).then(|| format!("text {n}")));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(numbers.clone())), Arc::new(texts.collect::<StringArray>())];
    RecordBatch::try_new(schema().to_arrow(), columns).unwrap()
}

/// A new table of [`schema`] in a store.
pub(crate) async fn table(store: &Store) -> (TableLog, Arc<TableState>) {
    let folder = store.folder("tables/t").unwrap();
    TableLog::create(folder, "t", &schema(), BTreeMap::new()).await.unwrap()
}

/// Commits rows, again and again where other writers are first.
pub(crate) async fn append(
    log: &TableLog,
    state: &Arc<TableState>,
    numbers: impl IntoIterator<Item = i64>,
) -> Committed {
    let file = log.write_data(&schema(), vec![batch(numbers)]).await.unwrap();
    let change = Change { add: vec![file], ..Change::default() };
    commit(log, state, &change).await
}

/// Commits a change, again and again where other writers are first.
pub(crate) async fn commit(log: &TableLog, state: &Arc<TableState>, change: &Change) -> Committed {
    let mut base = Arc::clone(state);
    loop {
        match log.commit(&base, change).await {
            Ok(done) => return done,
            Err(CommitError::Conflict(newer)) => {
                assert!(newer.version() > base.version(), "a conflict without a newer version");
                base = newer;
            }
            Err(CommitError::Storage(e) | CommitError::Unknown(e)) => panic!("{e}"),
        }
    }
}

/// The rows of the first column, which are int64, without the deleted ones, in order of fragments.
pub(crate) async fn numbers(log: &TableLog, state: &TableState) -> Vec<i64> {
    let mut found = Vec::new();
    for fragment in state.fragments().iter() {
        let deleted = log.deleted_rows(fragment).await.unwrap();
        let mut reader = log.read(state, fragment, &[0]).await.unwrap();
        let mut row = 0;
        while let Some(batch) = reader.next().await.unwrap() {
            for n in batch.column(0).as_primitive::<Int64Type>().values() {
                if !deleted.as_ref().is_some_and(|d| d.contains(row)) {
                    found.push(*n);
                }
                row += 1;
            }
        }
        assert_eq!(row, u64::from(fragment.rows));
    }
    assert_eq!(found.len() as u64, state.rows());
    found
}

/// What a state says, for comparing two ways to it.
pub(crate) fn shown(state: &TableState) -> String {
    let fragments: Vec<_> = state
        .fragments()
        .iter()
        .map(|f| {
            (f.id, f.file.path().to_owned(), f.first_row, f.rows, f.file.deletion_vector(), f.encoded_bytes())
        })
        .collect();
    let mut requests: Vec<_> = state.requests().collect();
    requests.sort_unstable_by_key(|done| &done.request.id);
    let properties: Vec<_> = state.properties().collect();
    format!(
        "{} {} {:?} {:?} {:?} {} {:?}",
        state.version(),
        state.id(),
        state.schema(),
        properties,
        fragments,
        state.next_fragment(),
        requests
    )
}
