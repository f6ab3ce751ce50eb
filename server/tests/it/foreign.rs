//! Files of other writers: their fragments have ids from hashes, which may be those of other files in other versions.

use std::{collections::HashMap, fs, path::Path, sync::Arc, time::Duration};

use arrow_array::{Int64Array, RecordBatch, cast::AsArray as _, types::Int64Type};
use basalt_client::col;
use basalt_core::schema::{DataType, Field, Schema};
use basalt_storage::{Store, TableLog};
use tempfile::TempDir;

use crate::support::Server;

/// CRC-32, bit by bit.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(u32::MAX, |crc, byte| {
        let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
        (0..8).fold(crc ^ u32::from(byte), step)
    })
}

/// Two names of files whose fragments have the same id, if each is alone.
fn colliding() -> [String; 2] {
    let mut names: HashMap<u32, String> = HashMap::new();
    for i in 0u64.. {
        // Numbers that differ in few digits never have the same CRC.
        let name = format!("f{:016x}.parquet", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let id = crc32(name.bytes().chain(0u64.to_le_bytes())) | 1 << 31;
        if let Some(first) = names.insert(id, name.clone()) {
            return [first, name];
        }
    }
    unreachable!()
}

/// Writes a data file of one column `a` as another writer might, and says the action that adds it.
async fn file(folder: &Path, name: &str, values: Vec<i64>) -> String {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap());
    let rows = values.len();
    let batch = RecordBatch::try_new(schema.to_arrow(), vec![Arc::new(Int64Array::from(values))]).unwrap();
    let log = TableLog::new(Store::open(folder.to_str().unwrap()).unwrap());
    let written = log.write_data(&schema, vec![batch]).await.unwrap();
    fs::rename(folder.join(written.path()), folder.join(name)).unwrap();
    let (size, stats) = (written.bytes(), format!(r#"{{\"numRecords\":{rows}}}"#));
    format!(
        r#"{{"add":{{"path":"{name}","partitionValues":{{}},"size":{size},"modificationTime":0,"dataChange":true,"stats":"{stats}"}}}}"#
    )
}

fn remove(name: &str) -> String {
    format!(r#"{{"remove":{{"path":"{name}","deletionTimestamp":0,"dataChange":true}}}}"#)
}

fn commit(folder: &Path, version: u64, actions: &[String]) {
    let log = folder.join("_delta_log");
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join(format!("{version:020}.json")), actions.join("\n")).unwrap();
}

/// The first version of a table with these files.
fn first(folder: &Path, adds: Vec<String>) {
    let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}"#;
    let mut actions = vec![
        r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#.to_owned(),
        format!(
            r#"{{"metaData":{{"id":"theirs","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}"#
        ),
    ];
    actions.extend(adds);
    commit(folder, 0, &actions);
}

async fn values(server: &Server) -> Vec<i64> {
    let rows =
        server.client.query("t").select([col("a")]).order_by([col("a").asc()]).collect().await.unwrap();
    rows.batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_whose_names_collide_keep_their_rows() {
    let [one, two] = colliding();
    let (theirs, ours) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let folder = theirs.path();
    let added = file(folder, &one, vec![1, 2, 3]).await;
    first(folder, vec![added.clone()]);
    let server = Server::with(|config| config.store = ours.path().display().to_string()).await;
    server.client.attach_table("t", folder.to_str().unwrap()).await.unwrap();
    assert_eq!(values(&server).await, [1, 2, 3]);

    let reaches = async |version: u64| {
        let mut tries = 0;
        while server.client.table_summary("t").await.unwrap().version < version {
            tries += 1;
            assert!(tries < 200);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // The other one takes its place, and its id.
    let other = file(folder, &two, vec![40, 50, 60]).await;
    commit(folder, 1, &[remove(&one), other]);
    reaches(1).await;
    assert_eq!(values(&server).await, [40, 50, 60]);
    // Both are there: one of them has the next id.
    commit(folder, 2, &[added]);
    reaches(2).await;
    assert_eq!(values(&server).await, [1, 2, 3, 40, 50, 60]);
    // The first one leaves, so that the other's id is another one again.
    commit(folder, 3, &[remove(&one.clone().min(two.clone()))]);
    reaches(3).await;
    let rest = if one < two { [40, 50, 60] } else { [1, 2, 3] };
    assert_eq!(values(&server).await, rest);
}
