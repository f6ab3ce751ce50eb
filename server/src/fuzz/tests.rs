//! The targets over what fuzzing has kept.

use std::{fs, path::Path};

use super::{TARGETS, seeds};

#[test]
fn the_kept_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, run, _) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        seeds.iter().for_each(|seed| run(seed));
        let kept = fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for file in kept {
            let data = fs::read(file.unwrap().path()).unwrap();
            run(&data);
        }
    }
}
