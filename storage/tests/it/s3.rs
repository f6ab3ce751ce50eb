//! The same on a store at S3: `scripts/check-s3` starts one and names it in `BASALT_TEST_S3`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use basalt_sip::Sip;
use basalt_storage::{CatalogLog, Change, Store};

use crate::support::{append, commit, numbers, schema, shown};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "it needs a store at S3: scripts/check-s3, which .ci/run calls, starts one and runs it"]
async fn races_have_one_winner_and_rows_come_back() {
    let url = std::env::var("BASALT_TEST_S3").unwrap();
    for round in 0..5 {
        let store = Store::open(&format!("{url}/{}/round {round}", uuid::Uuid::new_v4())).unwrap();
        let catalog = CatalogLog::new(store, Duration::ZERO);
        let empty = catalog.load().await.unwrap();
        let makers = (0..16).map(|_| {
            let (catalog, empty) = (catalog.clone(), Arc::clone(&empty));
            tokio::spawn(async move { catalog.create(&empty, "t", &schema(), BTreeMap::new()).await })
        });
        let mut made = Vec::new();
        for maker in makers.collect::<Vec<_>>() {
            made.extend(maker.await.unwrap());
        }
        assert_eq!(made.len(), 1);
        let made = made.remove(0);
        let writers = (0..32).map(|i| {
            let (log, state) = (made.log.clone(), Arc::clone(&made.table));
            tokio::spawn(async move { append(&log, &state, [i]).await.state.version() })
        });
        let mut versions = BTreeSet::new();
        for writer in writers.collect::<Vec<_>>() {
            assert!(versions.insert(writer.await.unwrap()));
        }
        assert_eq!(versions, (1..=32).collect());
        let state = made.log.refresh(&made.table).await.unwrap();
        let mut found = numbers(&made.log, &state).await;
        found.sort_unstable();
        assert_eq!(found, (0..32).collect::<Vec<_>>());

        let state = append(&made.log, &state, 0..50_000).await.state;
        let scattered: Vec<u64> = (0..50_000).filter(|i| i * i % 7 == 1).collect();
        let deletions = vec![(32, Sip::from_sorted_ids(&scattered))];
        let state = commit(&made.log, &state, &Change { deletions, ..Change::default() }).await.state;
        let state =
            commit(&made.log, &state, &Change { remove: vec![0, 1], ..Change::default() }).await.state;
        let state = made.log.checkpoint(&state).await.unwrap();
        let loaded = made.log.load().await.unwrap();
        assert_eq!(shown(&loaded), shown(&state));
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(made.log.vacuum(&loaded).await.unwrap().files, 2);
        assert_eq!(numbers(&made.log, &loaded).await.len() as u64, state.rows());
    }
}
