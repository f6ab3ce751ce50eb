//! Files of sqllogictest, with what DuckDB's add to them: loops, `require`, modes.

use std::{collections::BTreeMap, path::Path};

use sqllogictest::{DefaultColumnType, Record};

/// What a file has for the runner.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Record(Box<Record<DefaultColumnType>>),
    /// A directive by which the state that the file is about is another one: nothing behind it is asked.
    Stop(String),
}

/// Extensions and properties of a build that say nothing of SQL.
const HARMLESS: [&str; 12] = [
    "vector_size",
    "exact_vector_size",
    "no_alternative_verify",
    "no_vector_verification",
    "skip_reload",
    "noforcestorage",
    "no_force_storage",
    "notwindows",
    "strinline",
    "64bit",
    "ram",
    "core_functions",
];

/// What a name in a loop's list stands for.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "<integral>",
        &[
            "tinyint",
            "smallint",
            "integer",
            "bigint",
            "hugeint",
            "utinyint",
            "usmallint",
            "uinteger",
            "ubigint",
            "uhugeint",
        ],
    ),
    ("<signed>", &["tinyint", "smallint", "integer", "bigint", "hugeint"]),
    ("<unsigned>", &["utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"]),
    (
        "<numeric>",
        &[
            "tinyint",
            "smallint",
            "integer",
            "bigint",
            "hugeint",
            "utinyint",
            "usmallint",
            "uinteger",
            "ubigint",
            "uhugeint",
            "float",
            "double",
        ],
    ),
    (
        "<alltypes>",
        &[
            "bool",
            "tinyint",
            "smallint",
            "integer",
            "bigint",
            "hugeint",
            "utinyint",
            "usmallint",
            "uinteger",
            "ubigint",
            "uhugeint",
            "float",
            "double",
            "interval",
            "varchar",
        ],
    ),
];

/// Turns of a loop, at most: what a loop asks more than that is more of the same.
const TURNS: usize = 20;

/// The steps of a file; an error says why it is none.
pub(crate) fn read(path: &Path) -> Result<Vec<Step>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    // A value may be of spaces alone.
    let trimmed = |line: &'_ str| -> usize {
        let length = line.trim_end().len();
        if length == 0 { usize::from(line.starts_with([' ', '\t'])) } else { length }
    };
    let lines: Vec<&str> = text.lines().map(|line| &line[..trimmed(line)]).collect();
    let mut steps = Vec::new();
    expand(&lines, &BTreeMap::new(), &mut steps)?;
    Ok(steps)
}

fn substituted(line: &str, variables: &BTreeMap<String, String>) -> String {
    variables.iter().fold(line.to_owned(), |line, (name, value)| {
        line.replace(&format!("${{{name}}}"), value).replace(&format!("{{{name}}}"), value)
    })
}

/// The line behind the end of the loop that begins before `from`.
fn end_of_loop(lines: &[&str], from: usize) -> Result<usize, String> {
    let mut depth = 1;
    for (at, line) in lines.iter().enumerate().skip(from) {
        match line.split_whitespace().next() {
            Some("loop" | "foreach" | "concurrentloop" | "concurrentforeach") => depth += 1,
            Some("endloop") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(at);
        }
    }
    Err("a loop without its end".to_owned())
}

fn turns(words: &[String]) -> Result<Vec<String>, String> {
    match words.first().map(String::as_str) {
        Some("loop" | "concurrentloop") => {
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<i64>().ok());
            let (Some(from), Some(to)) = (number(2), number(3)) else {
                return Err("a loop without its bounds".to_owned());
            };
            Ok((from..to).take(TURNS).map(|turn| turn.to_string()).collect())
        }
        _ => {
            let mut turns: Vec<String> = Vec::new();
            for word in words.iter().skip(2) {
                if let Some(left_out) = word.strip_prefix('!') {
                    turns.retain(|turn| turn != left_out);
                } else if let Some((_, group)) = GROUPS.iter().find(|(name, _)| name == word) {
                    turns.extend(group.iter().map(|&name| name.to_owned()));
                } else {
                    turns.push(word.clone());
                }
            }
            Ok(turns)
        }
    }
}

fn expand(lines: &[&str], variables: &BTreeMap<String, String>, steps: &mut Vec<Step>) -> Result<(), String> {
    let mut at = 0;
    let mut skipped = false;
    let mut left_out = false;
    while at < lines.len() {
        let line = substituted(lines[at], variables);
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        at += 1;
        let Some(first) = words.first().map(String::as_str) else { continue };
        match first {
            _ if first.starts_with('#') => {}
            "mode" => skipped = words.get(1).is_some_and(|mode| mode == "skip"),
            "loop" | "foreach" | "concurrentloop" | "concurrentforeach" => {
                let end = end_of_loop(lines, at)?;
                if !skipped {
                    for turn in turns(&words)? {
                        let mut variables = variables.clone();
                        variables.insert(words.get(1).cloned().unwrap_or_default(), turn);
                        expand(&lines[at..end], &variables, steps)?;
                    }
                }
                at = end + 1;
            }
            "require" => {
                let what = words.get(1).map(String::as_str).unwrap_or_default();
                if !HARMLESS.contains(&what) {
                    steps.push(Step::Stop(format!("require {what}")));
                }
            }
            "load" | "restart" | "reconnect" | "require-env" | "test-env" | "unzip" | "halt" | "import"
            | "template" => steps.push(Step::Stop(first.to_owned())),
            "onlyif" | "skipif" => {
                let is_there = match words.get(1).and_then(|word| word.split_once('=')) {
                    Some((name, value)) => variables.get(name).is_some_and(|turn| turn == value),
                    None => false,
                };
                left_out |= is_there == (first == "skipif");
            }
            "statement" | "query" => {
                let mut block = vec![header(&words)];
                let mut is_answer = false;
                while at < lines.len() {
                    let line = lines[at];
                    at += 1;
                    let ends = |line: &str| {
                        let next = line.split_whitespace().next().unwrap_or_default();
                        ["query", "statement", "require", "loop", "foreach", "endloop", "mode"]
                            .contains(&next)
                            || next.starts_with('#')
                    };
                    let is_value = is_answer && lines.get(at).is_some_and(|next| !ends(next));
                    if line.is_empty() || (line.trim().is_empty() && !is_value) {
                        // An error may have empty lines, which nobody compares.
                        break;
                    }
                    is_answer |= line == "----";
                    if !is_answer && line.starts_with('#') {
                        continue;
                    }
                    block.push(substituted(line, variables));
                }
                if skipped || std::mem::take(&mut left_out) {
                    continue;
                }
                if block[0].starts_with("statement") {
                    // What an error says there is its own.
                    if let Some(end) = block.iter().position(|line| line == "----") {
                        block.truncate(end);
                    }
                }
                let block = block.join("\n") + "\n";
                if let Ok(records) = sqllogictest::parser::parse::<DefaultColumnType>(&block) {
                    let of_sql = |record: &Record<_>| {
                        matches!(record, Record::Statement { .. } | Record::Query { .. })
                    };
                    steps.extend(
                        records.into_iter().filter(of_sql).map(|record| Step::Record(Box::new(record))),
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The first line of a record, in the form that the crate reads.
fn header(words: &[String]) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        // Whether it goes well is nobody's promise.
        ["statement", "maybe", ..] => "statement ok".to_owned(),
        ["statement", "error", ..] => "statement error".to_owned(),
        ["statement", ..] => "statement ok".to_owned(),
        // Connections of one file see the same tables.
        ["query", "error", ..] => "statement error".to_owned(),
        ["query", types, sort @ ("rowsort" | "valuesort" | "nosort"), label, ..] => {
            format!("query {types} {sort} {label}")
        }
        ["query", types, sort_or_label, ..] => format!("query {types} {sort_or_label}"),
        _ => words.join(" "),
    }
}
