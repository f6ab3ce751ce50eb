//! The number of files that a table has is bounded, however small its writes are.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray as _, types::Int64Type};
use basalt_client::count;
use basalt_proto::v1::TypeKind;
use basalt_server::limits;
use tempfile::TempDir;

use crate::support::{Server, field};

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_writes_leave_few_files() {
    let commits = 4 * limits::VACUUM_COMMITS;
    let store = TempDir::new().unwrap();
    let server = Server::with(|config| {
        store.path().to_str().unwrap().clone_into(&mut config.store);
        config.commit_delay = Duration::ZERO;
        config.keep_versions = Duration::from_secs(1);
    })
    .await;
    server.create("t", vec![field("a", TypeKind::Int64)]).await.unwrap();
    let (done, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // The log's files grow old at once, so that it need not be waited for.
    let watch = std::thread::spawn({
        let (tables, done, most) = (store.path().join("tables"), Arc::clone(&done), Arc::clone(&most));
        move || {
            while !done.load(Ordering::Acquire) {
                let found = files(&tables);
                most.fetch_max(found.len(), Ordering::AcqRel);
                for file in found.iter().filter(|file| file.parent().unwrap().ends_with("_delta_log")) {
                    if let Ok(file) = std::fs::File::options().write(true).open(file) {
                        let _ = file.set_modified(SystemTime::now() - Duration::from_secs(7200));
                    }
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    });
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let row = RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap();
    let mut written = 0;
    while server.client.table("t").await.unwrap().table.version < commits {
        for _ in 0..64 {
            server.client.write_all("t", std::slice::from_ref(&row)).await.unwrap();
            written += 1;
        }
    }
    done.store(true, Ordering::Release);
    watch.join().unwrap();
    let answer = server.client.query("t").select([count()]).collect().await.unwrap();
    assert_eq!(answer.batches[0].column(0).as_primitive::<Int64Type>().value(0), written);
    // What a vacuum finds, and what comes until the next: that is due after so many commits, and comes within a second
    // or two.
    let bound = usize::try_from(2 * limits::VACUUM_COMMITS * limits::COMMIT_FILES).unwrap();
    let most = most.load(Ordering::Acquire);
    println!("{most} files at most, after {written} writes");
    assert!(most < bound, "{most} files, after {written} writes; the bound is {bound}");
}
