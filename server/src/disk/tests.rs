use std::time::Duration;

use basalt_core::{
    fragment::Column,
    schema::{DataType, Field},
};

use super::*;
use crate::memory::{Consumer, MemoryPool};

const ROWS: u32 = 5000;

/// A cache in a folder, and the memory above it.
struct Tiers {
    pool: Arc<MemoryPool>,
    memory: Arc<FragmentCache>,
    disk: Option<Arc<DiskCache>>,
}

impl Tiers {
    fn open(folder: &Path, limit: u64) -> Self {
        let (pool, memory) = (Arc::new(MemoryPool::new(1 << 30)), Arc::<FragmentCache>::default());
        let disk = DiskCache::open(
            folder,
            limit,
            Arc::clone(&memory),
            Arc::new(Metrics::new("a:1")),
            crate::environment::process(),
        );
        Self { pool, memory, disk }
    }

    fn disk(&self) -> &Arc<DiskCache> {
        self.disk.as_ref().unwrap()
    }

    /// Has columns written, and waits for it.
    async fn keep(&self, rows: u64, columns: &[u64]) {
        let held = Rows { table: 1, hash: rows };
        for id in columns {
            let mut reserved = self.pool.reserve(Consumer::Cache);
            reserved.set(1).unwrap();
            self.memory.keep_column(held, *id, column(rows, *id), Duration::ZERO, reserved);
        }
        self.disk().keep(key(rows), held, columns.to_vec());
        self.settle().await;
    }

    async fn settle(&self) {
        while self.disk().waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Those of some columns that are found, and are right.
    async fn found(&self, rows: u64, columns: &[u64]) -> Vec<u64> {
        let Some(found) = self.disk().find(key(rows), columns.to_vec()).await else { return Vec::new() };
        let mut ids = Vec::new();
        for read in self.disk().read(found).await {
            let id = columns[read.place];
            let again = Column::from_parts(read.parts, DataType::Int64, ROWS as usize).unwrap();
            let expected = column(rows, id);
            assert!((0..ROWS as usize).all(|row| again.value(row) == expected.value(row)));
            ids.push(id);
        }
        ids.sort_unstable();
        ids
    }
}

fn key(rows: u64) -> Key {
    Key { table: 5, rows, n: ROWS, text: format!("table\nfile {rows}").into() }
}

/// Values that no encoding makes smaller: 40,000 bytes.
fn column(rows: u64, id: u64) -> Arc<Column> {
    let mut state = (rows << 32 | id).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let keys = (0..ROWS).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.cast_signed()
    });
    let field = Field::new("a", DataType::Int64, false);
    Arc::new(Column::from_keys(&field, &keys.collect::<Vec<_>>(), None).unwrap())
}

/// The files of the cache, with their sizes.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let folder = folder.join(format!("{FOLDER}{}-{}", file::VERSION, encoding::FORMAT_VERSION));
    let tables = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = tables.flat_map(|table| fs::read_dir(table.path()).unwrap().flatten());
    let mut files: Vec<_> = files.map(|file| (file.path(), file.metadata().unwrap().len())).collect();
    files.sort();
    files
}

#[tokio::test]
async fn columns_that_come_later_are_found_too() {
    let folder = tempfile::tempdir().unwrap();
    let tiers = Tiers::open(folder.path(), 1 << 30);
    assert!(tiers.found(1, &[7]).await.is_empty());
    // More often than there are files.
    for id in 1..=7 {
        tiers.keep(1, &[id, id + 1]).await;
        let all: Vec<u64> = (1..=id + 1).collect();
        assert_eq!(tiers.found(1, &all).await, all);
        let files = files(folder.path()).len();
        assert!((1..=usize::from(PARTS)).contains(&files), "{files}");
    }
    assert!(tiers.found(2, &[1]).await.is_empty());
    // The next process finds them, and no other while this one is there.
    assert!(Tiers::open(folder.path(), 1 << 30).disk.is_none());
    tiers.disk().close().await;
    let next = Tiers::open(folder.path(), 1 << 30);
    assert_eq!(next.found(1, &[8, 3, 99]).await, [3, 8]);
    assert_eq!(next.disk().which(vec![key(1), key(2)]).await, [true, false]);
    next.disk().send(Job::Forget { table: 5, rows: Some(1) });
    next.settle().await;
    assert!(next.found(1, &[3]).await.is_empty() && files(folder.path()).is_empty());
    assert_eq!(next.disk().bytes(), 0);
}

#[tokio::test]
async fn the_size_is_kept_and_the_oldest_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let tiers = Tiers::open(folder.path(), 300_000);
    let size = || files(folder.path()).iter().map(|(_, bytes)| bytes).sum::<u64>();
    for rows in 0..10 {
        tiers.keep(rows, &[1]).await;
        assert!(size() <= 300_000 && size() <= tiers.disk().bytes());
    }
    // What came just now is not deleted for others.
    assert_eq!(files(folder.path()).len(), 7);
    assert_eq!(tiers.found(0, &[1]).await, [1]);
    tiers.disk().close().await;
    // The first was read last.
    let next = Tiers::open(folder.path(), 100_000);
    next.keep(0, &[1]).await;
    assert_eq!((files(folder.path()).len(), next.found(0, &[1]).await), (2, vec![1]));
    next.disk().close().await;
    let next = Tiers::open(folder.path(), 100_000);
    // What an earlier process left stays as well, until a start had the time to read it.
    next.keep(20, &[1]).await;
    assert_eq!((files(folder.path()).len(), next.found(20, &[1]).await), (2, vec![]));
    next.disk().shared.files().since -= limits::CACHE_FILE_STAYS;
    next.keep(20, &[1]).await;
    assert!(size() <= 100_000);
    assert_eq!((next.found(20, &[1]).await, next.found(0, &[1]).await), (vec![1], vec![1]));
}

#[tokio::test]
async fn what_is_damaged_is_deleted_and_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let tiers = Tiers::open(folder.path(), 1 << 30);
    for spoil in 0..5 {
        tiers.keep(1, &[1, 2]).await;
        let (path, bytes) = files(folder.path()).remove(0);
        let written = fs::read(&path).unwrap();
        match spoil {
            0 => fs::write(&path, []).unwrap(),
            1 => fs::write(&path, &written[..written.len() / 2]).unwrap(),
            2 => fs::write(&path, vec![0; written.len()]).unwrap(),
            3 => {
                let mut written = written;
                *written.last_mut().unwrap() ^= 1;
                fs::write(&path, written).unwrap();
            }
            _ => {
                // The file of other rows.
                tiers.keep(2, &[1, 2]).await;
                fs::copy(files(folder.path()).remove(1).0, &path).unwrap();
            }
        }
        assert!(bytes > 80_000);
        let found = tiers.found(1, &[1, 2]).await;
        // A spoilt column spoils no other that was read with it.
        assert_eq!(found, if spoil == 3 { vec![1] } else { vec![] });
        assert!(!path.exists());
    }
    tiers.keep(1, &[1, 2]).await;
    assert_eq!(tiers.found(1, &[1, 2]).await, [1, 2]);
}

#[tokio::test]
async fn a_disk_that_fails_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let tiers = Tiers::open(folder.path(), 1 << 30);
    tiers.keep(1, &[1]).await;
    // The folder goes, and comes again.
    let columns = folder.path().join(format!("{FOLDER}{}-{}", file::VERSION, encoding::FORMAT_VERSION));
    fs::remove_dir_all(&columns).unwrap();
    assert!(tiers.found(1, &[1]).await.is_empty());
    assert_eq!(tiers.disk().bytes(), 0);
    tiers.keep(1, &[1]).await;
    assert_eq!(tiers.found(1, &[1]).await, [1]);
    // Now nothing can be written.
    fs::remove_dir_all(&columns).unwrap();
    fs::write(&columns, "").unwrap();
    tiers.keep(2, &[1]).await;
    assert!(!tiers.disk().shared.writes.is_over());
    tiers.keep(3, &[1]).await;
    assert!(tiers.found(2, &[1]).await.is_empty());
    // A folder that cannot be used at all.
    assert!(Tiers::open(&columns.join("below"), 1 << 30).disk.is_none());
}
