//! Golden stores: what an earlier version wrote, with the answers that it gave, is read for ever. `scripts/golden-store`
//! writes one, once for each version that changes what lies in a store; none is ever changed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use basalt_client::col;
use tempfile::TempDir;

use crate::support::Server;

fn golden_stores() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut stores: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    stores.sort();
    assert!(!stores.is_empty());
    stores
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

async fn at(store: &TempDir) -> Server {
    Server::with(|config| config.store = store.path().to_str().unwrap().to_owned()).await
}

/// Asks through the binary, as `scripts/golden-store` did.
async fn answer(server: &Server, query: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.args(["query", "--format", "csv", query]).env("BASALT_SERVER", &server.address);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_golden_store_is_read_and_written_further() {
    for golden in golden_stores() {
        let store = TempDir::new().unwrap();
        copy(&golden.join("store"), store.path());
        let answers = fs::read_to_string(golden.join("answers.txt")).unwrap();
        let mut server = at(&store).await;
        let mut asked = 0;
        for (query, expected) in answers.trim_end().split("\n\n").map(|block| block.split_once('\n').unwrap())
        {
            // SQL reads -0.0 as 0.0.
            let zero = if cfg!(feature = "sql") { ",0.0," } else { ",-0.0," };
            let expected = expected.replace(",-0.0,", zero);
            assert_eq!(answer(&server, query).await, expected, "{}: {query}", golden.display());
            asked += 1;
        }
        assert!(asked >= 10, "{asked} queries of {}", golden.display());

        // A version that reads it goes on from there.
        assert_eq!(server.client.delete("all", col("id").lt(10)).await.unwrap().rows, 10);
        let rows = server.rows("all").await;
        server.signal();
        server.ended().await;
        let server = at(&store).await;
        assert_eq!(server.rows("all").await, rows);
    }
}
