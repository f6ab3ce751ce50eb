//! What comes from a store: logs, checkpoints, data files, deletion vectors and the catalog of any writer, and texts of CSV.

#![allow(clippy::expect_used, reason = "a target fails by panicking")]

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use basalt_nested::csv::{Record, Splitter};
use basalt_storage::{CatalogLog, Environment, Store, TableLog, TableState};
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, memory::InMemory, path::Path};
use tokio::runtime::{Builder, Runtime};

/// The name of a target, what it does, and the bytes that it may allocate at once: for each of the input, and besides.
pub(crate) type Target = (&'static str, fn(&[u8]), (usize, usize));

/// All of them.
pub(crate) const TARGETS: &[Target] = &[
    ("delta_log", delta_log, (64, 8 << 20)),
    ("checkpoint", checkpoint, (64, 64 << 20)),
    // A batch has 65,536 rows, each of which may be the longest text of a dictionary.
    ("data_file", data_file, (64, 1 << 30)),
    ("deletion_vector", deletion_vector, (64, 8 << 20)),
    ("catalog", catalog, (64, 8 << 20)),
    ("csv", csv, (64, 8 << 20)),
];

/// Parts of an input stand between zeros, which no text has.
pub(crate) const BETWEEN: u8 = 0;
/// The first line of a part of a log that is no version: a checkpoint in JSON, and what says which is the last.
pub(crate) const CHECKPOINT: &[u8] = b"checkpoint\n";
pub(crate) const LAST: &[u8] = b"last\n";

/// A process in which time stands, and whose jobs run at once.
#[derive(Debug, Default)]
pub(crate) struct Still {
    pub(crate) objects: Arc<InMemory>,
    ids: AtomicU64,
}

impl Environment for Still {
    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn random(&self) -> u128 {
        u128::from(self.ids.fetch_add(1, Ordering::Relaxed)) << 32
    }

    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        // Whoever waits for it hears that it panicked.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }

    fn objects(&self, _url: &str) -> Option<Arc<dyn ObjectStore>> {
        Some(Arc::clone(&self.objects) as Arc<dyn ObjectStore>)
    }
}

impl Still {
    pub(crate) fn store(self: &Arc<Self>) -> Store {
        let environment = Arc::clone(self) as Arc<dyn Environment>;
        Store::open_in(environment, "memory:").expect("a store in memory")
    }

    pub(crate) async fn put(&self, path: &str, bytes: impl Into<PutPayload>) {
        self.objects.put(&Path::from(path), bytes.into()).await.expect("an object in memory");
    }
}

/// Runs a target's future; what it waits for comes at once.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: RefCell<Runtime> = RefCell::new(
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime"),
        );
    }
    RUNTIME.with_borrow(|runtime| runtime.block_on(future))
}

pub(crate) fn version(version: usize) -> String {
    format!("_delta_log/{version:020}.json")
}

/// Reads what a state says, and the first rows of its first fragments, in every way that the server has.
async fn read(log: &TableLog, state: &Arc<TableState>) {
    let columns: Vec<usize> = (0..state.schema().fields().len()).collect();
    for fragment in state.fragments().iter().take(3) {
        drop(log.deleted_rows(fragment).await);
        for column in &columns {
            let _ = state.bounds(fragment.id, *column);
            drop(state.column_stats(&fragment.file, *column));
        }
        if let Ok(mut rows) = log.read(state, fragment, &columns).await {
            drop(rows.text_bytes());
            let mut left = 4;
            while left > 0 && matches!(rows.next().await, Ok(Some(_))) {
                left -= 1;
            }
        }
    }
    for file in state.files_after("").take(3) {
        drop(log.verify(state, file).await);
    }
    drop(log.check_same(state).await);
}

/// Versions of a log, and checkpoints in JSON between them.
fn delta_log(data: &[u8]) {
    wait(async {
        let still = Arc::new(Still::default());
        let mut versions = 0_usize;
        for part in data.split(|byte| *byte == BETWEEN).take(16) {
            if let Some(checkpoint) = part.strip_prefix(CHECKPOINT) {
                let id = "80a083e8-7026-4e79-81be-64bd76c43a11";
                let path = format!("_delta_log/{:020}.checkpoint.{id}.json", versions.saturating_sub(1));
                still.put(&path, checkpoint.to_vec()).await;
            } else if let Some(last) = part.strip_prefix(LAST) {
                still.put("_delta_log/_last_checkpoint", last.to_vec()).await;
            } else {
                still.put(&version(versions), part.to_vec()).await;
                versions += 1;
            }
        }
        let log = TableLog::new(still.store());
        let Ok(state) = log.load().await else { return };
        drop(log.refresh(&state).await);
        drop(log.at(&state, state.version().saturating_sub(1)).await);
        read(&log, &state).await;
        if log.checkpoint(&state).await.is_ok() {
            drop(log.load().await);
        }
    });
}

/// A Parquet file: its last two bytes say how many of those before them are its footer.
pub(crate) fn parquet(data: &[u8]) -> Vec<u8> {
    let (body, footer) = match data {
        [rest @ .., a, b] => {
            let length = usize::from(u16::from_le_bytes([*a, *b])).min(rest.len());
            rest.split_at(rest.len() - length)
        }
        _ => (data, &[][..]),
    };
    let length = u32::try_from(footer.len()).unwrap_or(u32::MAX).to_le_bytes();
    [b"PAR1", body, footer, &length, b"PAR1"].concat()
}

/// A Parquet file as the checkpoint of a table, and as a sidecar of one.
fn checkpoint(data: &[u8]) {
    wait(async {
        let file = parquet(data);
        let alone = Arc::new(Still::default());
        alone.put("_delta_log/00000000000000000007.checkpoint.parquet", file.clone()).await;
        let log = TableLog::new(alone.store());
        if let Ok(state) = log.load().await {
            read(&log, &state).await;
        }
        let still = Arc::new(Still::default());
        let size = file.len();
        still.put("_delta_log/_sidecars/part.parquet", file).await;
        let of_sidecar = format!(
            "{}\n{{\"checkpointMetadata\":{{\"version\":7}}}}\n{{\"sidecar\":{{\"path\":\"part.parquet\",\"sizeInBytes\":{size},\"modificationTime\":0}}}}\n",
            FIRST.trim_end()
        );
        let id = "80a083e8-7026-4e79-81be-64bd76c43a11";
        still.put(&format!("_delta_log/00000000000000000007.checkpoint.{id}.json"), of_sidecar).await;
        let log = TableLog::new(still.store());
        if let Ok(state) = log.load().await {
            read(&log, &state).await;
        }
    });
}

/// A table with a column of each type.
pub(crate) const FIRST: &str = concat!(
    r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint","deletionVectors"],"writerFeatures":["v2Checkpoint","deletionVectors"]}}"#,
    "\n",
    r#"{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":["#,
    r#"{\"name\":\"bool\",\"type\":\"boolean\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"int8\",\"type\":\"byte\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"int16\",\"type\":\"short\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"int32\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"int64\",\"type\":\"long\",\"nullable\":false,\"metadata\":{}},"#,
    r#"{\"name\":\"uint32\",\"type\":\"long\",\"nullable\":true,\"metadata\":{\"basalt.type\":\"uint32\"}},"#,
    r#"{\"name\":\"uint64\",\"type\":\"decimal(20,0)\",\"nullable\":true,\"metadata\":{\"basalt.type\":\"uint64\"}},"#,
    r#"{\"name\":\"float32\",\"type\":\"float\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"float64\",\"type\":\"double\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"price\",\"type\":\"decimal(9,2)\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"wide\",\"type\":\"decimal(38,3)\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"date\",\"type\":\"date\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"at\",\"type\":\"timestamp\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"text\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"bytes\",\"type\":\"binary\",\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"list\",\"type\":{\"type\":\"array\",\"elementType\":\"integer\",\"containsNull\":true},\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"map\",\"type\":{\"type\":\"map\",\"keyType\":\"string\",\"valueType\":\"double\",\"valueContainsNull\":true},\"nullable\":true,\"metadata\":{}},"#,
    r#"{\"name\":\"pair\",\"type\":{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]},\"nullable\":true,\"metadata\":{}}"#,
    r#"]}","partitionColumns":[],"configuration":{}}}"#,
    "\n",
);

/// A Parquet file as a data file of a table with columns of all types.
fn data_file(data: &[u8]) {
    wait(async {
        let file = parquet(data);
        let still = Arc::new(Still::default());
        let add = format!(
            r#"{{"add":{{"path":"part.parquet","partitionValues":{{}},"size":{},"modificationTime":0,"dataChange":true}}}}"#,
            file.len()
        );
        still.put(&version(0), format!("{FIRST}{add}\n")).await;
        still.put("part.parquet", file).await;
        let log = TableLog::new(still.store());
        if let Ok(state) = log.load().await {
            read(&log, &state).await;
        }
    });
}

/// What stands before the file of deletion vectors in an input: whether its length and its checksum are put right, how
/// many rows the log says are in it, and where in the file it says that they are.
pub(crate) const VECTOR_HEAD: usize = 4;

/// A file of deletion vectors, and the same bytes in the log.
fn deletion_vector(data: &[u8]) {
    let Some(([flags, low, high, offset], bytes)) = data.split_first_chunk::<VECTOR_HEAD>() else { return };
    let rows = u16::from_le_bytes([*low, *high]);
    let mut file = bytes.to_vec();
    let start = usize::from(*offset);
    let size = file.len().saturating_sub(start + 8);
    if flags & 1 == 1 && file.len() >= start + 8 {
        file[start..start + 4].copy_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
        let checksum = crc32fast::hash(&file[start + 4..start + 4 + size]).to_be_bytes();
        file[start + 4 + size..].copy_from_slice(&checksum);
    }
    wait(async {
        let still = Arc::new(Still::default());
        let add = |name: &str, vector: &str| {
            format!(
                r#"{{"add":{{"path":"{name}","partitionValues":{{}},"size":9,"modificationTime":0,"dataChange":true,"stats":"{{\"numRecords\":1100000}}","deletionVector":{vector}}}}}"#
            )
        };
        let of_file = format!(
            r#"{{"storageType":"u","pathOrInlineDv":"00000000000000000000","offset":{start},"sizeInBytes":{size},"cardinality":{rows}}}"#
        );
        let mut log = format!("{FIRST}{}\n", add("a", &of_file));
        if let Ok(text) = std::str::from_utf8(bytes) {
            let text = serde_json::to_string(text).expect("a text of JSON");
            let of_log = format!(
                r#"{{"storageType":"i","pathOrInlineDv":{text},"sizeInBytes":{},"cardinality":{rows}}}"#,
                bytes.len() / 5 * 4
            );
            log = format!("{log}{}\n", add("b", &of_log));
        }
        still.put(&version(0), log).await;
        still.put("deletion_vector_00000000-0000-0000-0000-000000000000.bin", file).await;
        let log = TableLog::new(still.store());
        let Ok(state) = log.load().await else { return };
        for fragment in state.fragments().iter() {
            drop(log.deleted_rows(fragment).await);
        }
        for file in state.files_after("") {
            drop(log.verify(&state, file).await);
        }
    });
}

/// Entries of a catalog's journal. Each is one line; the second, which says that it is whole, is put right where the
/// first byte is even.
fn catalog(data: &[u8]) {
    let Some((flags, data)) = data.split_first() else { return };
    wait(async {
        let still = Arc::new(Still::default());
        for (number, part) in data.split(|byte| *byte == BETWEEN).take(16).enumerate() {
            let mut entry = part.to_vec();
            if flags & 1 == 0 {
                entry.push(b'\n');
                let crc32 = crc32fast::hash(&entry);
                entry.extend(format!("{{\"number\":{number},\"crc32\":{crc32}}}\n").bytes());
            }
            still.put(&format!("catalog/{number:020}.json"), entry).await;
        }
        let catalog = CatalogLog::new(still.store(), Duration::from_secs(600));
        let Ok(state) = catalog.load().await else { return };
        for entry in state.tables().values().take(4) {
            drop(catalog.open(entry).await);
        }
        drop(catalog.refresh(&state).await);
        drop(catalog.unnamed_folders(&state).await);
    });
}

/// Records of CSV, in pieces of a few bytes and in large ones: they are the same.
fn csv(data: &[u8]) {
    let Some((piece, text)) = data.split_first() else { return };
    let records = |buffer: usize| {
        let (mut splitter, mut record) = (Splitter::behind(text, b',', 1, buffer), Record::default());
        let mut found = Vec::new();
        while matches!(splitter.next(&mut record), Ok(true)) {
            assert_eq!(record.kinds().count(), record.len());
            found.push((
                record.line,
                record.is_blank,
                record.fields().map(<[u8]>::to_vec).collect::<Vec<_>>(),
            ));
        }
        (found, splitter.line())
    };
    assert_eq!(records(usize::from(*piece)), records(1 << 16));
}
