//! What fuzzing has kept still passes where nobody fuzzes; `fuzz/README.md` says what the targets do.

use std::{fs, path::Path};

#[path = "../../../fuzz/src/storage.rs"]
mod targets;

#[test]
fn the_kept_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, run, _) in targets::TARGETS {
        let kept: Vec<_> = fs::read_dir(corpus.join(name)).unwrap().collect();
        assert!(kept.len() > 3, "{name}: only {} files", kept.len());
        for file in kept {
            run(&fs::read(file.unwrap().path()).unwrap());
        }
    }
}
