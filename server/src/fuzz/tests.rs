//! The targets over their seeds, and over what fuzzing has kept.

use std::{fs, path::Path};

use super::{TARGETS, seeds};

#[test]
fn seeds_and_the_kept_corpus_pass() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    assert!(corpus.is_dir(), "{}", corpus.display());
    for (name, run, _) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        seeds.iter().for_each(|seed| run(seed));
        // A target that nobody has fuzzed for long has none.
        for file in fs::read_dir(corpus.join(name)).into_iter().flatten() {
            run(&fs::read(file.unwrap().path()).unwrap());
        }
    }
}
