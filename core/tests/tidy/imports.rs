//! Which file names what another one defines: such dependencies have one direction.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_of, rust_files};

/// Folders whose files depend on each other without a circle, each with the sources of its crate.
const WITHOUT_CIRCLES: &[(&str, &str)] =
    &[("core/src/encoding", "core/src"), ("core/kernels/src", "core/kernels/src")];

/// The names of modules from the crate's root on. One that stands inside of a file begins with [`INLINE`].
type Path = Vec<String>;

/// In front of the name of a module that stands inside of a file.
const INLINE: &str = "{";

/// What a file names, as it is written there, and the module where it stands.
#[derive(Default)]
struct File {
    /// What names that were imported stand for.
    imports: BTreeMap<String, Path>,
    /// Paths in imports and in code.
    named: Vec<(Path, Path)>,
}

/// The files of a folder by their modules.
struct Graph {
    files: BTreeMap<Path, File>,
}

/// Words and signs of a file's code, without comments, texts and characters.
fn tokens(code: &str) -> Vec<String> {
    let chars: Vec<char> = code.chars().collect();
    let (mut tokens, mut i) = (Vec::new(), 0);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while i < chars.len() {
        let rest = &chars[i..];
        i += match rest {
            ['/', '/', ..] => rest.iter().take_while(|c| **c != '\n').count(),
            ['"', ..] => {
                let mut end = 1;
                while rest.get(end).is_some_and(|c| *c != '"') {
                    end += if rest[end] == '\\' { 2 } else { 1 };
                }
                end + 1
            }
            ['\'', '\\', ..] => 4 + rest[3..].iter().take_while(|c| **c != '\'').count(),
            ['\'', _, '\'', ..] => 3,
            [':', ':', ..] => {
                tokens.push("::".to_owned());
                2
            }
            [c, ..] if is_word(*c) => {
                let word: String = rest.iter().take_while(|c| is_word(**c)).collect();
                let length = word.chars().count();
                tokens.push(word);
                length
            }
            [c, ..] => {
                tokens.extend((!c.is_whitespace()).then(|| c.to_string()));
                1
            }
            [] => break,
        };
    }
    tokens
}

/// Reads one branch of a `use` and returns the place behind it.
fn branch(tokens: &[String], mut at: usize, prefix: &[String], out: &mut Vec<(Path, String)>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens[at].as_str() {
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = branch(tokens, at, &path, out);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            word => path.push(word.to_owned()),
        }
        at += 1;
        if tokens[at] == "::" {
            at += 1;
            continue;
        }
        if path.len() > 1 && path.last().unwrap() == "self" {
            path.pop();
        }
        let mut name = path.last().unwrap().clone();
        if tokens[at] == "as" {
            name.clone_from(&tokens[at + 1]);
            at += 2;
        }
        out.push((path, name));
        return at;
    }
}

impl File {
    fn new(module: &[String], code: &str) -> Self {
        let tokens = tokens(code);
        let token = |i: usize| tokens.get(i).map_or("", String::as_str);
        let is_word = |i: usize| token(i).starts_with(|c: char| c.is_alphabetic() || c == '_');
        let mut file = Self::default();
        // The modules that are open here, with the depth of their braces.
        let (mut inside, mut depth, mut i) = (Vec::<(String, usize)>::new(), 0, 0);
        while i < tokens.len() {
            let here =
                || -> Path { module.iter().chain(inside.iter().map(|(name, _)| name)).cloned().collect() };
            match token(i) {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inside.pop_if(|(_, opened)| *opened == depth);
                }
                "mod" if token(i + 2) == "{" => inside.push((format!("{INLINE}{}", token(i + 1)), depth)),
                // The path of a visibility is no dependency.
                "pub" if token(i + 1) == "(" => {
                    while token(i) != ")" {
                        i += 1;
                    }
                }
                "use" => {
                    let mut branches = Vec::new();
                    i = branch(&tokens, i + 1, &[], &mut branches);
                    for (path, name) in branches {
                        file.named.push((here(), path.clone()));
                        if inside.is_empty() {
                            file.imports.insert(name, path);
                        }
                    }
                }
                _ if is_word(i) && token(i + 1) == "::" && (i == 0 || token(i - 1) != "::") => {
                    let mut path = vec![token(i).to_owned()];
                    while token(i + 1) == "::" && is_word(i + 2) {
                        path.push(token(i + 2).to_owned());
                        i += 2;
                    }
                    file.named.push((here(), path));
                }
                _ => {}
            }
            i += 1;
        }
        file
    }
}

impl Graph {
    /// The files of a folder, those that are for tests apart.
    fn of(folder: &str, source: &str) -> Self {
        let mut sources = Vec::new();
        for file in rust_files() {
            let path = file.to_string_lossy().into_owned();
            let Some(inner) = path.strip_prefix(source).filter(|_| path.starts_with(&format!("{folder}/")))
            else {
                continue;
            };
            let names = inner.trim_matches('/').trim_end_matches(".rs").split('/').map(str::to_owned);
            let mut module: Path = names.collect();
            module.pop_if(|name| name == "mod" || name == "lib");
            sources.push((module, code_of(&file)));
        }
        Self::new(&sources)
    }

    fn new(sources: &[(Path, String)]) -> Self {
        let is_for_tests = |module: &[String]| {
            (1..=module.len()).any(|n| {
                let (parent, name) = (&module[..n - 1], &module[n - 1]);
                let declared = format!("#[cfg(test)]\nmod {name};");
                let declares = |(other, code): &(Path, String)| other == parent && code.contains(&declared);
                name == "tests" || sources.iter().any(declares)
            })
        };
        let sources = sources.iter().filter(|(module, _)| !is_for_tests(module));
        Self { files: sources.map(|(module, code)| (module.clone(), File::new(module, code))).collect() }
    }

    /// The file that defines what a path in a module names, found by way of what others export again; none for what is
    /// of other folders and crates, and for a module itself: what is named by way of it counts.
    fn definition(&self, from: &[String], path: &[String], steps: usize) -> Option<Path> {
        let mut module = from.to_vec();
        let mut at = 0;
        match path[0].as_str() {
            "crate" => (module, at) = (Vec::new(), 1),
            "self" | "super" => {
                while let Some(word) = path.get(at).filter(|word| *word == "self" || *word == "super") {
                    if word == "super" {
                        module.pop();
                    }
                    at += 1;
                }
            }
            first => {
                let child = module.iter().cloned().chain([first.to_owned()]).collect::<Path>();
                let imported = self.files.get(&module).is_some_and(|file| file.imports.contains_key(first));
                if !imported && !self.files.contains_key(&child) {
                    return None;
                }
            }
        }
        while let Some(name) = path.get(at) {
            if module.last().is_some_and(|last| last.starts_with(INLINE)) {
                break;
            }
            let child = module.iter().cloned().chain([name.clone()]).collect::<Path>();
            let leads_on = self.files.keys().any(|file| file.starts_with(&child));
            if leads_on {
                (module, at) = (child, at + 1);
                continue;
            }
            let file = self.files.get(&module)?;
            if let Some(import) = file.imports.get(name).filter(|_| steps > 0) {
                let path: Path = import.iter().chain(&path[at + 1..]).cloned().collect();
                return self.definition(&module, &path, steps - 1);
            }
            break;
        }
        module.retain(|name| !name.starts_with(INLINE));
        (at < path.len() && self.files.contains_key(&module)).then_some(module)
    }

    /// For each file those that define what it names, each with one of the names.
    fn edges(&self) -> BTreeMap<&Path, BTreeMap<Path, String>> {
        let edges_of = |(module, file)| {
            let (module, file): (&Path, &File) = (module, file);
            let mut edges = BTreeMap::new();
            for (from, path) in &file.named {
                if let Some(other) = self.definition(from, path, 8).filter(|other| other != module) {
                    edges.insert(other, path.join("::"));
                }
            }
            (module, edges)
        };
        self.files.iter().map(edges_of).collect()
    }

    /// A circle of files, each with what it names of the next.
    fn circle(&self) -> Option<String> {
        fn walk<'a>(
            at: &'a Path,
            edges: &'a BTreeMap<&Path, BTreeMap<Path, String>>,
            way: &mut Vec<(&'a Path, &'a str)>,
            done: &mut BTreeSet<&'a Path>,
        ) -> Option<String> {
            if let Some(first) = way.iter().position(|(module, _)| *module == at) {
                let circle = &way[first..];
                let next = circle.iter().skip(1).map(|(module, _)| *module).chain([at]);
                let step = |((module, name), next): (&(&Path, &str), &Path)| {
                    format!("{} names {name} of {}", module.join("/"), next.join("/"))
                };
                return Some(circle.iter().zip(next).map(step).collect::<Vec<_>>().join(", "));
            }
            if !done.insert(at) {
                return None;
            }
            for (other, name) in &edges[at] {
                way.push((at, name));
                if let Some(circle) = walk(other, edges, way, done) {
                    return Some(circle);
                }
                way.pop();
            }
            None
        }
        let edges = self.edges();
        let mut done = BTreeSet::new();
        self.files.keys().find_map(|module| walk(module, &edges, &mut Vec::new(), &mut done))
    }
}

#[test]
fn encodings_and_kernels_import_in_one_direction() {
    for (folder, source) in WITHOUT_CIRCLES {
        let graph = Graph::of(folder, source);
        let edges: usize = graph.edges().values().map(BTreeMap::len).sum();
        assert!(edges > 2 * graph.files.len(), "{folder}: {edges} dependencies: are they still found?");
        assert_eq!(graph.circle(), None, "files of {folder} depend on each other in a circle");
    }
}

/// The circle of files with these sources.
fn circle(sources: &[(&str, &str)]) -> Option<String> {
    let module = |name: &str| name.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let sources: Vec<_> = sources.iter().map(|(name, code)| (module(name), (*code).to_owned())).collect();
    Graph::new(&sources).circle()
}

#[test]
fn circles_are_found_and_named() {
    // By an import, by a path in code, and by what a module exports again.
    let facade = "mod a; mod b; pub use self::{a::A, b::B};";
    let found =
        circle(&[("", facade), ("a", "use super::B; pub struct A(B);"), ("b", "fn f(_: crate::A) {}")]);
    assert_eq!(found.unwrap(), "a names super::B of b, b names crate::A of a");
    // A module inside of a file is a part of it, and a parent is a file as any other.
    let found = circle(&[("", "mod a; struct C;"), ("a", "mod inner { use super::super::C; }")]);
    assert_eq!(found, None);
    let found =
        circle(&[("", "mod a; use a::A; struct C;"), ("a", "mod inner { use super::super::C; } struct A;")]);
    assert_eq!(found.unwrap(), " names a::A of a, a names super::super::C of ");
    // Neither comments, texts nor visibilities name anything; tests may name all.
    let b = "// crate::A\npub(in crate::a) struct B(&'static str); const T: &str = \"crate::A\"; const C: char = '\"';";
    assert_eq!(circle(&[("", facade), ("a", "use super::B; struct A;"), ("b", b)]), None);
    let b = "pub struct B;\n#[cfg(test)]\nmod check;\nfn f() { check::f() }";
    assert_eq!(
        circle(&[("", facade), ("a", "use super::B;"), ("b", b), ("b/check", "use crate::A; fn f() {}")]),
        None
    );
}
