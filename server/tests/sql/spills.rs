//! Sorts, groups and joins that find no memory: on disk where there is a folder for them, and refused where there is none.

use std::{path::Path, time::Duration};

use basalt_client::ErrorReason;
use basalt_server::Memory;

use crate::{
    promises::{filled, number, reason},
    serve,
};

const ROWS: i64 = 300_000;

/// Each holds more than the server may: 320 bytes and more a row.
const STATEMENTS: [&str; 6] = [
    "SELECT sum(n * key) FROM (SELECT key, row_number() OVER (ORDER BY x DESC) AS n FROM \
     (SELECT key, repeat(text, 32) AS x FROM t))",
    "SELECT sum(n * k) FROM (SELECT repeat(text, 32) AS x, count(*) AS n, min(key) AS k FROM t GROUP BY 1)",
    "SELECT count(*) FROM (SELECT DISTINCT repeat(text, 32) FROM t)",
    "WITH x AS (SELECT key, repeat(text, 32) AS x, 0.0::DOUBLE AS zero FROM t) \
     SELECT sum(a.key * b.key) FROM x AS a JOIN x AS b ON a.x = b.x AND a.zero = -b.zero",
    "WITH x AS (SELECT key, repeat(text, 32) AS x FROM t) \
     SELECT count(*) FROM x AS a LEFT JOIN (SELECT * FROM x WHERE key % 7 > 0) AS b ON a.x = b.x WHERE b.key IS NULL",
    "WITH x AS (SELECT key, repeat(text, 32) AS x FROM t LIMIT 1000000) SELECT sum(k) FROM \
     (SELECT key AS k FROM x WHERE length(x) > 0 UNION ALL SELECT -3 * key FROM x WHERE x >= '')",
];

/// What the engine does in memory alone, where there is enough.
const OF_ENGINE: &str = "SELECT count(*) FROM (SELECT text, count(*), max(key) FROM long GROUP BY text)";

/// The files of statements; a server holds one of its own.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>());
    let below = |path: &Path| if path.is_dir() { files(path) } else { usize::from(!path.ends_with("lock")) };
    entries.unwrap_or_default().iter().map(|entry| below(&entry.path())).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_finds_no_memory_goes_to_disk() {
    let folder = tempfile::tempdir().unwrap();
    let large = serve("memory:", |_| {}).await;
    let large = filled(&large, "t", 0..ROWS).await;
    let store = folder.path().join("store").to_str().unwrap().to_owned();
    let cache = folder.path().join("cache");
    let small = serve(&store, |config| {
        config.memory = Memory::Bytes(96 << 20);
        config.cache = Some(cache.clone());
    });
    let small = filled(&small.await, "t", 0..ROWS).await;
    let none = serve("memory:", |config| config.memory = Memory::Bytes(96 << 20)).await;
    let none = filled(&none, "t", 0..ROWS).await;
    for client in [&large, &small] {
        client.sql("CREATE TABLE long (key BIGINT, text TEXT)").collect().await.unwrap();
        for from in (0..ROWS).step_by(50_000) {
            let to = from + 50_000;
            let sql = format!(
                "INSERT INTO long SELECT key, text || repeat(md5(text), 3) FROM t WHERE key >= {from} AND key < {to}"
            );
            client.sql(&sql).collect().await.unwrap();
        }
    }
    // Much is written and read again, beside whatever else runs on the machine.
    let [large, small, none] =
        [large, small, none].map(|client| client.with_deadline(Duration::from_secs(600)));
    for sql in STATEMENTS {
        assert_eq!(number(&small, sql).await, number(&large, sql).await, "{sql}");
        assert_eq!(reason(none.sql(sql).collect().await), ErrorReason::MemoryLimit, "{sql}");
        assert_eq!(files(&cache.join("sql")), 0, "{sql}");
    }
    assert_eq!(number(&small, OF_ENGINE).await, number(&large, OF_ENGINE).await);
    assert_eq!(files(&cache.join("sql")), 0);
}
