//! Runs the fuzz targets, and holds each input to a bound of memory. What a target does stands in a module beside the crate that it
//! is of, so that the tests of that crate run it over the kept corpus as well.

mod engine;
mod seeds;
mod storage;

use std::{
    backtrace::Backtrace,
    env, fs,
    panic::{set_hook, take_hook},
    path::Path,
    process,
    sync::OnceLock,
};

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What a target does with an input, and what it may take.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Bytes that it may allocate at once: so many for each byte of the input, and so many besides.
    pub bound: (usize, usize),
}

static CHOSEN: OnceLock<Target> = OnceLock::new();

fn targets() -> Vec<Target> {
    let lists = [
        storage::TARGETS,
        engine::TARGETS,
        #[cfg(feature = "server")]
        basalt_server::fuzz::TARGETS,
    ];
    let all = lists.into_iter().flatten();
    all.map(|(name, run, bound)| Target { name, run: *run, bound: *bound }).collect()
}

/// Begins a target. Where `BASALT_SEEDS` names a folder, its seeds are written there instead.
pub fn begin(name: &str) {
    let target = targets().into_iter().find(|target| target.name == name).expect("a target of the list");
    if let Some(folder) = env::var_os("BASALT_SEEDS") {
        let folder = Path::new(&folder);
        fs::create_dir_all(folder).expect("a folder for seeds");
        for (i, seed) in seeds::of(name).into_iter().enumerate() {
            fs::write(folder.join(format!("seed-{i:02}")), seed).expect("a seed");
        }
        process::exit(0);
    }
    // The hook of libfuzzer-sys ends the process at every panic. Those of libraries that decode are caught where they
    // are called, and are an error there; nobody catches ours.
    drop(take_hook());
    let told = take_hook();
    set_hook(Box::new(move |panic| {
        let at = panic.location().map_or("", |at| at.file());
        if !is_of_library(at) {
            told(panic);
            process::abort();
        }
    }));
    let _ = CHOSEN.set(target);
}

/// Whether a panic is a library's.
fn is_of_library(file: &str) -> bool {
    const OF_LIBRARIES: &str = "/registry/src/";
    if !file.starts_with("/rustc/") && !file.contains("/rustlib/src/") {
        return file.contains(OF_LIBRARIES);
    }
    // The standard library says nothing of its caller: it is the first frame that is not of it.
    let trace = Backtrace::force_capture().to_string();
    let places = trace.lines().filter_map(|line| line.trim().strip_prefix("at "));
    let caller = places
        .filter(|place| !place.contains("/rustc/") && !place.contains("/rustlib/src/"))
        .find(|place| !place.contains("fuzz/src/lib.rs"));
    caller.is_some_and(|place| place.contains(OF_LIBRARIES))
}

/// Gives an input to the target that was begun.
pub fn run(data: &[u8]) {
    let Some(target) = CHOSEN.get() else { return };
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    (target.run)(data);
    let taken = ALLOCATOR.peak_usage().saturating_sub(before);
    let (each, besides) = target.bound;
    let most = data.len() * each + besides;
    assert!(
        taken <= most,
        "{taken} bytes were allocated at once for an input of {}; {most} may be",
        data.len()
    );
}
