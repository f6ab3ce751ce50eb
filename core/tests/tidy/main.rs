//! Keeps ARCHITECTURE.md true: who may depend on whom, where `unsafe` is, that every path exists, that no file
//! is dead or holds too many things, and that files of a layer do not import each other in circles.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod imports;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Every crate, its folder, and the crates of ours that it may use; dev-dependencies count too, except
/// `basalt-client` in tests of the server.
const LAYERS: &[(&str, &str, &[&str])] = &[
    ("basalt-proto", "proto", &[]),
    ("basalt-kernels", "core/kernels", &[]),
    ("basalt-sip", "core/sip", &["basalt-kernels"]),
    ("basalt-engine", "core", &["basalt-kernels", "basalt-sip"]),
    ("basalt-nested", "storage/nested", &[]),
    ("basalt-storage", "storage", &["basalt-engine", "basalt-nested", "basalt-sip"]),
    ("basalt-sql", "sql", &["basalt-engine", "basalt-nested", "basalt-sip"]),
    ("basalt-client", "client", &["basalt-nested", "basalt-proto", "basalt-sip"]),
    (
        "basalt-server",
        "server",
        &[
            "basalt-engine",
            "basalt-nested",
            "basalt-sip",
            "basalt-sql",
            "basalt-storage",
            "basalt-proto",
            "basalt-client",
        ],
    ),
    (
        "basalt-benches",
        "benches",
        &[
            "basalt-kernels",
            "basalt-sip",
            "basalt-engine",
            "basalt-storage",
            "basalt-proto",
            "basalt-client",
            "basalt-server",
        ],
    ),
];

/// The server from top to bottom: each uses what stands below it, and nothing above.
const SERVER: &[&str] = &[
    "transport",
    "http",
    "flight",
    "services",
    "postgres",
    "sql",
    "peers",
    "coordinator",
    "membership",
    "tables",
    "disk",
    "cache",
    "memory",
];
/// From here on down nobody knows the whole server.
const WITHOUT_STATE: &str = "membership";

/// What the engine must not know: it is synchronous, without protocol, files, sockets or clock.
const FORBIDDEN_IN_CORE: &[&str] =
    &["tokio", "tonic", "prost", "std::net", "std::fs", "SystemTime", "Instant"];

/// What puts a value in the place of one that is not there. In the engine and in storage a comment that begins with
/// [`REASON`] says why that is no broken rule: on its line, or right above the statement.
const DEFAULTS: &[&str] = &[
    "unwrap_or_default",
    "unwrap_or(0",
    "unwrap_or(1",
    "unwrap_or(false",
    "unwrap_or(true",
    "unwrap_or(\"\"",
    "unwrap_or(u16::",
    "unwrap_or(u32::",
    "unwrap_or(u64::",
    "unwrap_or(usize::",
    "unwrap_or(i32::",
    "unwrap_or(i64::",
    "unwrap_or(i128::",
    "unwrap_or(f64::",
    "map_or(0",
    "map_or(false",
    "map_or(true",
    "map_or(\"\"",
    "map_or(String::",
    "unwrap_or_else(String::new",
];
const REASON: &str = "// Default: ";

/// What asks the process or the machine for time, chance, threads, the network or a store. In the server and in storage
/// only their environments do, so that many nodes run in one thread and in a time of their own. A runtime is the seam of
/// tasks (`tokio::spawn`) and of time that passes (`tokio::time`); `select!` without an order asks for chance.
const SURROUNDINGS: &[&str] = &[
    "std::time::Instant",
    "SystemTime::now",
    "clock_gettime",
    "spawn_blocking",
    "block_in_place",
    "Handle::current",
    "thread::spawn",
    "thread::Builder",
    "thread::sleep",
    "thread::park",
    "Condvar",
    "rayon::spawn",
    "pool.spawn",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "lookup_host",
    "to_socket_addrs",
    "connect_lazy",
    "rand::",
    "getrandom",
    "RandomState",
    "Uuid::new_v4",
    "LocalFileSystem::new",
    "InMemory::new",
    "AmazonS3Builder",
    "select!",
];

/// Where they may be asked, besides, and why.
const ASKED: &[(&str, &str, &str)] = &[
    ("server/src/access/file.rs", "thread::sleep", "a command waits for another one, in no server"),
    ("server/src/access/issue.rs", "rand::", "a command makes keys, in no server"),
    ("server/src/tls/issue.rs", "SystemTime::now", "a command makes certificates, in no server"),
    ("server/src/cpu.rs", "std::time::Instant", "what is shown in an explanation and decides nothing"),
    ("server/src/lib.rs", "TcpListener", "whoever runs a server has bound it"),
    (
        "server/src/process.rs",
        "thread::sleep",
        "it looks at the process that it is in, on a thread that no test has",
    ),
    (
        "server/src/flight/ingest.rs",
        "Handle::current",
        "a table that is given up is removed where the rows came from",
    ),
    (
        "server/src/http/load.rs",
        "Handle::current",
        "a table that is given up is removed where the rows came from",
    ),
    ("server/src/sql/mod.rs", "Handle::current", "scans go to the runtime that the statement came from"),
    ("server/src/sql/tasks.rs", "Handle::current", "what tasks read goes to the runtime that they came to"),
    ("server/src/tables/writing.rs", "Handle::current", "tasks go to the runtime that the write came from"),
    ("storage/src/store.rs", "LocalFileSystem::new", "an environment may have other objects there"),
    ("storage/src/store.rs", "InMemory::new", "an environment may have other objects there"),
    ("storage/src/store.rs", "AmazonS3Builder", "an environment may have other objects there"),
];

/// Lines of one file, tests apart.
const MAX_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path.as_ref()).unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()))
}

/// Every Rust file of the workspace, relative to its root.
fn rust_files() -> Vec<PathBuf> {
    fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                walk(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    let root = root();
    let mut files = Vec::new();
    walk(&root, &mut files);
    files.iter().map(|f| f.strip_prefix(&root).unwrap().to_path_buf()).collect()
}

/// The names on the left of `=` in the dependency tables of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut names = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[') {
            inside = table.trim_end_matches(']').ends_with("dependencies");
        } else if inside && let Some((name, _)) = line.split_once('=') {
            names.insert(name.trim().trim_end_matches(".workspace").to_owned());
        }
    }
    names
}

#[test]
fn crates_depend_downwards_only() {
    for (name, folder, allowed) in LAYERS {
        let manifest = read(root().join(folder).join("Cargo.toml"));
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{folder} is not {name}");
        for dependency in dependencies(&manifest).iter().filter(|d| d.starts_with("basalt-")) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_server_depends_downwards_only() {
    let bottom = SERVER.iter().position(|module| *module == WITHOUT_STATE).unwrap();
    let mut edges = BTreeSet::new();
    for file in rust_files() {
        let path = file.to_string_lossy();
        let Some(rest) = path.strip_prefix("server/src/").filter(|_| !path.ends_with("/tests.rs")) else {
            continue;
        };
        let module = rest.split(['/', '.']).next().unwrap();
        let Some(rank) = SERVER.iter().position(|known| *known == module) else { continue };
        let code = code_of(&file);
        let uses: String =
            code.split("use crate::").skip(1).filter_map(|rest| rest.split(';').next()).collect();
        let names: BTreeSet<&str> =
            uses.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').collect();
        let used = |name: &str| names.iter().any(|path| path.split("::").next() == Some(name));
        for (other, name) in SERVER.iter().enumerate().filter(|(_, name)| **name != module && used(name)) {
            assert!(other > rank, "{path} uses {name}, which stands above it");
            edges.insert((module.to_owned(), *name));
        }
        assert!(rank < bottom || !used("state"), "{path} knows the whole server");
    }
    assert!(edges.len() >= 10, "{edges:?}");
}

#[test]
fn only_the_binary_uses_the_client() {
    for file in rust_files() {
        let path = file.to_string_lossy();
        let binary = ["server/src/main.rs", "server/src/demo/", "server/src/commands/"];
        let binary = binary.iter().any(|of| path.starts_with(of));
        if path.starts_with("server/src") && !binary {
            assert!(!read(root().join(&file)).contains("basalt_client"), "{path} uses the client");
        }
    }
}

#[test]
fn every_crate_takes_the_lints() {
    for (name, folder, _) in LAYERS {
        let manifest = read(root().join(folder).join("Cargo.toml"));
        let own = *name == "basalt-kernels" && manifest.contains("undocumented_unsafe_blocks = \"deny\"");
        assert!(
            own || manifest.contains("[lints]\nworkspace = true"),
            "{name} does not take the workspace's lints"
        );
    }
}

#[test]
fn unsafe_is_in_kernels_alone() {
    for file in rust_files() {
        let path = file.to_string_lossy();
        if path.starts_with("core/kernels/") || path == "core/tests/tidy/main.rs" {
            continue;
        }
        for (i, line) in read(root().join(&file)).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let words: Vec<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            assert!(!words.contains(&"unsafe"), "{path}:{}: unsafe outside basalt-kernels", i + 1);
        }
    }
}

#[test]
fn the_engine_knows_no_protocol() {
    for file in rust_files() {
        let path = file.to_string_lossy();
        if !path.starts_with("core/src/")
            && !path.starts_with("core/kernels/src/")
            && !path.starts_with("core/sip/src/")
        {
            continue;
        }
        let kernels_detect = path.starts_with("core/kernels/");
        for (i, line) in read(root().join(&file)).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for word in FORBIDDEN_IN_CORE.iter().filter(|_| !kernels_detect) {
                assert!(!code.contains(word), "{path}:{}: {word} in the engine", i + 1);
            }
        }
    }
}

/// What a server is given by its environment it can be given by a test.
#[test]
fn the_surroundings_are_asked_by_the_environment_alone() {
    let (mut found, mut excused) = (Vec::new(), BTreeSet::<&(&str, &str, &str)>::new());
    for file in rust_files() {
        let path = file.to_string_lossy();
        let ours = path.starts_with("server/src/") || path.starts_with("storage/src/");
        let apart = [
            "server/src/main.rs",
            "server/src/environment.rs",
            // The threads that the environment gives.
            "server/src/long_threads.rs",
            "storage/src/environment.rs",
        ];
        let folders = ["server/src/demo/", "server/src/fuzz/", "server/src/simulation/"];
        if !ours || apart.contains(&&*path) || folders.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        if path.ends_with("/tests.rs") {
            continue;
        }
        let code = code_of(&file);
        let lines: Vec<&str> =
            code.lines().map(|line| line.split("//").next().unwrap_or("").trim()).collect();
        for (i, line) in lines.iter().enumerate() {
            for asked in SURROUNDINGS.iter().filter(|asked| line.contains(*asked)) {
                let is_ordered =
                    *asked == "select!" && lines.get(i + 1).is_some_and(|next| *next == "biased;");
                let excuse = ASKED.iter().find(|(at, what, _)| *at == path && what == asked);
                excused.extend(excuse);
                if !is_ordered && excuse.is_none() {
                    found.push(format!("{path}:{}: {line}", i + 1));
                }
            }
        }
        // The standard library's moments go on while a test's time stands still.
        for imports in code.split("use std::").skip(1).filter_map(|rest| rest.split(';').next()) {
            if imports.contains("Instant") {
                found.push(format!("{path}: it takes `Instant` from the standard library, not from tokio"));
            }
        }
    }
    assert!(found.is_empty(), "{} asked directly:\n{}", found.len(), found.join("\n"));
    assert_eq!(excused.len(), ASKED.len(), "only these are asked where they may be: {excused:?}");
}

/// A broken rule is an error or a panic, never a value that looks right.
#[test]
fn defaults_have_reasons() {
    let mut without = Vec::new();
    for file in rust_files() {
        let path = file.to_string_lossy();
        let ours = path.starts_with("core/src/") || path.starts_with("storage/src/");
        if !ours || path.contains("/conformance/") || path.ends_with("/tests.rs") {
            continue;
        }
        let text = read(root().join(&file));
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
        // A reason holds up to the end of the statement below it.
        let mut has_reason = false;
        for (i, line) in code.lines().map(str::trim).enumerate() {
            has_reason |= line.contains(REASON);
            if DEFAULTS.iter().any(|default| line.contains(default)) && !has_reason {
                without.push(format!("{path}:{}: {line}", i + 1));
            }
            has_reason &= line.starts_with("//") || !line.ends_with([';', ',', '{', '}']);
        }
    }
    assert!(without.is_empty(), "defaults without {REASON:?}:\n{}", without.join("\n"));
}

/// A file of a crate that no `mod` names is silently left out of the build.
#[test]
fn no_dead_files() {
    let files = rust_files();
    let mut declared: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for file in &files {
        let text = read(root().join(file));
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let parent = file.parent().unwrap().to_path_buf();
        let folder =
            if ["lib", "main", "mod"].contains(&stem.as_str()) { parent } else { parent.join(&stem) };
        let names = declared.entry(folder).or_default();
        for line in text.lines() {
            let words: Vec<&str> = line.trim().trim_end_matches(';').split_whitespace().collect();
            if let Some(at) = words.iter().position(|w| *w == "mod")
                && let Some(name) = words.get(at + 1)
            {
                names.insert(name.trim_end_matches('{').to_owned());
            }
            // A macro may declare modules by a list of names.
            names.extend(
                words
                    .iter()
                    .map(|w| w.trim_end_matches([',', ';', ')']).to_owned())
                    .filter(|_| text.contains("mod $")),
            );
        }
    }
    for file in &files {
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let path = file.to_string_lossy();
        let is_root = ["lib", "main", "build"].contains(&stem.as_str())
            || file.parent().is_some_and(|p| {
                ["tests", "benches", "examples", "bin", "fuzz_targets"].iter().any(|n| p.ends_with(n))
            });
        if is_root {
            continue;
        }
        let (folder, name) = if stem == "mod" {
            let folder = file.parent().unwrap();
            (
                folder.parent().unwrap().to_path_buf(),
                folder.file_name().unwrap().to_string_lossy().into_owned(),
            )
        } else {
            (file.parent().unwrap().to_path_buf(), stem)
        };
        assert!(
            declared.get(&folder).is_some_and(|names| names.contains(&name)),
            "{path}: no `mod {name}` names it"
        );
    }
}

/// Constants that bound something by their name or type and are no limits of what comes from outside: what they are
/// instead. Those of encodings are a part of their form, and not looked at.
const NO_LIMITS: &[(&str, &str)] = &[
    ("DIGEST_CHARS", "a format's"),
    ("BITMAP_BYTES", "from where on a group-by takes another way"),
    ("MOST_PLACES", "from where on a group-by takes another way"),
    ("PLACE_BYTES", "the size of a type"),
    ("TEXT_BYTES", "as many as STATS_CHARS can have"),
    ("VALUE_BYTES", "an estimate: what a value takes in a message"),
    ("TEXT_BYTES_PER_NANOSECOND", "an estimate: a speed"),
    ("UUID_CHARS", "a format's"),
];

/// What a bound is called.
const BOUNDS: &[&str] = &[
    "AGE", "BYTES", "CHARS", "INTERVAL", "LEAST", "LIMIT", "LONGEST", "MAX", "MOST", "TIMEOUT", "WAITING",
    "WIDEST", "WINDOW",
];

/// A file's code without its tests.
fn code_of(file: &Path) -> String {
    let text = read(root().join(file));
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or("").to_owned()
}

#[test]
fn every_limit_stands_in_a_file_of_limits() {
    let (mut bounds, mut excused) = (0, BTreeSet::new());
    for file in rust_files() {
        let path = file.to_string_lossy();
        let server = ["core/src/", "storage/src/", "sql/src/", "server/src/"]
            .iter()
            .any(|folder| path.starts_with(folder));
        let apart = ["core/src/encoding/", "server/src/demo/", "server/src/fuzz/", "server/src/simulation/"]
            .iter()
            .any(|folder| path.starts_with(folder));
        if !server || apart || path.ends_with("/tests.rs") {
            continue;
        }
        for (i, line) in code_of(&file).lines().enumerate() {
            let Some((_, rest)) = line.split_once("const ") else { continue };
            let Some((name, rest)) = rest.split_once(": ") else { continue };
            let Some((kind, _)) = rest.split_once(" =") else { continue };
            let number = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f64"].contains(&kind);
            let bound =
                number && name.split('_').any(|word| BOUNDS.contains(&word)) || kind.contains("Duration");
            if !bound || name.contains(|c: char| !c.is_ascii_uppercase() && c != '_') {
                continue;
            }
            bounds += 1;
            if NO_LIMITS.iter().any(|(known, _)| *known == name) {
                excused.insert(name.to_owned());
                continue;
            }
            let is_of_limits = path.ends_with("src/limits.rs") || path.contains("src/limits/");
            assert!(is_of_limits, "{path}:{}: {name} belongs into limits.rs", i + 1);
        }
    }
    assert!(bounds > 100, "{bounds} bounds: are they still found?");
    let idle: Vec<_> = NO_LIMITS.iter().filter(|(name, _)| !excused.contains(*name)).collect();
    assert!(idle.is_empty(), "these are excused and not there: {idle:?}");
}

/// The one lock that may be held while something is waited for, and what that is not: another node.
#[test]
fn locks_are_held_across_calls_to_the_store_alone() {
    let architecture = read(root().join("ARCHITECTURE.md"));
    let (mut locks, mut holders) = (Vec::new(), 0);
    for file in rust_files().iter().filter(|file| file.to_string_lossy().contains("/src/")) {
        let (path, code) = (file.to_string_lossy(), code_of(file));
        for line in code.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            let is_field = line.contains("tokio::sync::Mutex<") || line.contains("tokio::sync::RwLock<");
            if let (true, Some((name, _))) = (is_field, line.split_once(": ")) {
                locks.push(name.trim_start_matches("pub(super) ").to_owned());
            }
        }
        for imports in code.split("use tokio::").skip(1).filter_map(|rest| rest.split(';').next()) {
            let hides = imports.contains("Mutex") || imports.contains("RwLock");
            assert!(!hides, "{path}: a lock of tokio is named in full where it is a field");
        }
        // From where the lock is taken to the end of the function.
        for held in code.split(".advancing.lock()").skip(1) {
            holders += 1;
            let body = held.split("\n    }\n").next().unwrap_or(held);
            for peer in ["peers()", ".find(", ".replaced(", ".committed(", ".catalog_changed("] {
                assert!(!body.contains(peer), "{path}: `{peer}` while `advancing` is held");
            }
        }
        let excused = code.matches("clippy::await_holding_invalid_type").count();
        assert_eq!(
            excused,
            code.matches(".advancing.lock()").count(),
            "{path}: another lock held across an await"
        );
    }
    assert_eq!(
        locks,
        ["advancing"],
        "every lock of this kind is named, and what is waited for while it is held"
    );
    assert!(architecture.contains("`advancing`") && holders >= 2, "{holders}");
}

#[test]
fn files_are_about_one_thing() {
    for file in rust_files() {
        let path = file.to_string_lossy();
        let text = read(root().join(&file));
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
        let lines = code.lines().count();
        assert!(lines <= MAX_LINES, "{path} has {lines} lines; the limit is {MAX_LINES}");
    }
}

#[test]
fn every_path_in_the_architecture_exists() {
    let text = read(root().join("ARCHITECTURE.md"));
    assert!(text.lines().count() <= 250, "ARCHITECTURE.md is longer than 250 lines");
    let mut paths = 0;
    for code in text.split('`').skip(1).step_by(2) {
        let is_path =
            code.contains('/') && !code.contains([' ', '*', '<', '(', ':']) && !code.starts_with('/');
        if is_path {
            paths += 1;
            assert!(root().join(code).exists(), "ARCHITECTURE.md names `{code}`, which does not exist");
        }
    }
    assert!(paths > 20, "ARCHITECTURE.md names only {paths} paths: is it still read?");
}
