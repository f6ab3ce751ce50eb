//! Stores that are tried before anything is written to them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use basalt_storage::{StorageError, Store};
use futures_util::TryStreamExt as _;
use object_store::{ObjectMeta, ObjectStore as _};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::flaky::{Fault, Flaky};

async fn left(objects: &Flaky) -> Vec<ObjectMeta> {
    objects.list(None).try_collect().await.unwrap()
}

#[tokio::test]
async fn a_store_that_replaces_what_must_be_new_is_refused() {
    let objects = Flaky::new(|_| Fault::None);
    let store = Store::over(Arc::new(objects.clone()));
    store.check_creates().await.unwrap();
    objects.overwrites.store(true, Ordering::Relaxed);
    let error = store.check_creates().await.unwrap_err();
    assert!(matches!(error, StorageError::Address { .. }), "{error:?}");
    assert!(error.to_string().contains("If-None-Match"), "{error}");
    assert!(left(&objects).await.is_empty());
    Store::in_memory().check_creates().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    Store::open(folder.path().to_str().unwrap()).unwrap().check_creates().await.unwrap();
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// Also where what was written is there, or comes later, though its writing failed.
#[tokio::test(start_paused = true)]
async fn faults_of_a_store_are_not_taken_for_that() {
    for seed in 0..50 {
        let mut random = StdRng::seed_from_u64(seed);
        let objects = Flaky::new(move |_| match random.random_range(0..10) {
            0 => Fault::Before,
            1 => Fault::After,
            2 => Fault::Late(Duration::from_millis(random.random_range(0..500))),
            _ => Fault::None,
        });
        Store::over(Arc::new(objects)).check_creates().await.unwrap();
    }
    let error = Store::over(Arc::new(Flaky::new(|_| Fault::After))).check_creates().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
}
