//! Files of sqllogictest against a server: those of this repository, every record of which holds, and, by
//! `scripts/check-logic`, those of a folder, of which it is counted how many queries are answered right.

#![allow(clippy::panic, clippy::unwrap_used, reason = "this is all test code")]

mod database;
mod decided;
mod file;
mod overhead;
mod report;
mod values;

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use basalt_client::Client;
use basalt_server::Config;
use database::{Database, Refused};
use file::Step;
use report::{Asked, Outcome};
use sqllogictest::{QueryExpect, Record, Runner, SortMode, StatementExpect};
use tokio::net::TcpListener;

/// Queries of one file that are asked, at most.
const QUERIES: usize = 60;

/// The address of a server that runs until the test ends.
async fn serve() -> String {
    let config = Config { threads: 2, store: "memory:".to_owned(), ..Config::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(basalt_server::run(listener, config, std::future::pending()));
    let client = Client::connect(&address).await.unwrap();
    while client.list_tables().await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    address
}

/// The files below a folder, in the order of their names.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            _ if path.is_dir() => files(&path, found),
            Some("slt" | "test") => found.push(path),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_files_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql/tests/logic");
    let mut found = Vec::new();
    files(&folder, &mut found);
    assert!(found.len() > 5, "{} has no files", folder.display());
    let address = serve().await;
    let mut failed = String::new();
    for path in found {
        Database::connect(&address).await.clear().await;
        let mut runner = Runner::new(|| ours(&address));
        if let Err(error) = runner.run_file_async(&path).await {
            write!(failed, "{error}").unwrap();
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

async fn ours(address: &str) -> Result<Database, Refused> {
    Ok(Database::connect(address).await.by_sql_alone())
}

/// Writes the answers that the server gives into our files, for whoever has read what changed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it changes the files"]
async fn fill_our_files() {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql/tests/logic"), &mut found);
    let address = serve().await;
    for path in found {
        Database::connect(&address).await.clear().await;
        let mut runner = Runner::new(|| ours(&address));
        let filled = runner.update_test_file(
            &path,
            "\t",
            sqllogictest::default_validator,
            sqllogictest::default_normalizer,
            sqllogictest::strict_column_validator,
        );
        filled.await.unwrap();
    }
}

/// `BASALT_LOGIC` names folders, with colons between them; the report goes to standard output, and each query that was
/// not answered right to the file `BASALT_LOGIC_DETAILS`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/check-logic runs it"]
async fn folders() {
    let folders = std::env::var("BASALT_LOGIC").unwrap();
    let address = serve().await;
    let mut database = Database::connect(&address).await;
    let mut asked = Vec::new();
    for folder in folders.split(':') {
        let name = folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        let mut found = Vec::new();
        files(Path::new(folder), &mut found);
        for path in found {
            database.clear().await;
            let short = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            let outcomes = run(&mut database, &path, &format!("{name}/{short}")).await;
            asked.extend(outcomes.into_iter().map(|(sql, outcome)| Asked {
                folder: name.clone(),
                file: format!("{name}/{short}"),
                sql,
                outcome,
            }));
        }
        eprintln!("{name}: {} queries so far", asked.len());
    }
    println!("{}", report::report(&asked));
    if let Ok(path) = std::env::var("BASALT_LOGIC_DETAILS") {
        std::fs::write(path, report::details(&asked)).unwrap();
    }
    let wrong = asked.iter().filter(|asked| matches!(asked.outcome, Outcome::Wrong(_))).count();
    assert_eq!(wrong, 0, "wrong answers");
}

/// Runs a file; what came of each of its queries.
async fn run(database: &mut Database, path: &Path, file: &str) -> Vec<(String, Outcome)> {
    let mut outcomes = Vec::new();
    // Default: what cannot be read asks nothing.
    let steps = file::read(path).unwrap_or_default();
    let mut stopped: Option<String> = None;
    let mut labels = HashMap::new();
    for step in steps {
        let record = match step {
            Step::Record(record) => *record,
            Step::Stop(why) => {
                stopped.get_or_insert(why);
                continue;
            }
        };
        if outcomes.len() >= QUERIES {
            break;
        }
        match record {
            Record::Statement { sql, expected: StatementExpect::Error(_), .. } => {
                let is_query = ["select", "with", "values", "from", "("]
                    .iter()
                    .any(|first| sql.trim_start().to_lowercase().starts_with(first));
                if stopped.is_none() && is_query && database.query(&sql).await.is_ok() {
                    outcomes.push((sql, Outcome::Lenient));
                }
            }
            Record::Statement { sql, .. } => {
                if let Some(setting) = setting(&sql) {
                    stopped.get_or_insert(setting);
                }
                if stopped.is_none() {
                    // What a statement could not do, the tables know.
                    let done = database.execute(&sql).await;
                    let first = first_word(&sql);
                    if ["begin", "start", "execute", "call", "use", "attach"].contains(&first.as_str()) {
                        stopped.get_or_insert(first.to_uppercase());
                    }
                    drop(done);
                }
            }
            Record::Query {
                sql,
                expected: QueryExpect::Results { types, sort_mode, results, label, .. },
                ..
            } => {
                let outcome = match &stopped {
                    // What others say of their plans and tables is their own.
                    _ if ["explain", "describe", "show", "summarize", "pragma", "desc"]
                        .contains(&first_word(&sql).as_str()) =>
                    {
                        Outcome::NotAsked(first_word(&sql).to_uppercase())
                    }
                    None if CHANGES.contains(&first_word(&sql).as_str()) => {
                        let _ = database.execute(&sql).await;
                        continue;
                    }
                    Some(why) => Outcome::NotAsked(why.clone()),
                    None if ["insert into", "delete from", "update ", "export_state"]
                        .iter()
                        .any(|word| sql.to_lowercase().contains(word)) =>
                    {
                        database.spoil(&sql).await;
                        Outcome::NotAsked("writes in a query, states of aggregates".to_owned())
                    }
                    None => {
                        let expected =
                            Expected { values: results, columns: types.len(), sort: sort_mode, label };
                        ask(database, file, &sql, expected, &mut labels).await
                    }
                };
                outcomes.push((sql, outcome));
            }
            _ => {}
        }
    }
    outcomes
}

/// First words of statements that change tables.
const CHANGES: [&str; 14] = [
    "insert", "update", "delete", "create", "drop", "alter", "copy", "execute", "call", "truncate", "merge",
    "begin", "commit", "rollback",
];

fn first_word(sql: &str) -> String {
    let lines = sql.lines().filter(|line| !line.trim_start().starts_with("--"));
    let text = lines.collect::<Vec<_>>().join(" ").to_lowercase();
    text.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or_default().to_owned()
}

/// A setting that changes what statements mean.
fn setting(sql: &str) -> Option<String> {
    const MEAN: [&str; 15] = [
        " seed",
        "default_null_order",
        "default_order",
        "null_order",
        "integer_division",
        "ieee_floating_point_ops",
        "timezone",
        "time zone",
        "calendar",
        "scalar_subquery_error_on_multiple_rows",
        "default_collation",
        "old_implicit_casting",
        "lambda_syntax",
        "search_path",
        "schema",
    ];
    let sql = sql.trim().to_lowercase();
    let first = sql.split_whitespace().next()?;
    if first == "use" || (first == "attach") {
        return Some(first.to_uppercase());
    }
    let is_set = ["set", "pragma", "reset"].contains(&first);
    MEAN.iter().find(|name| is_set && sql.contains(**name)).map(|name| format!("SET {name}"))
}

/// The answer that a file has.
struct Expected {
    values: Vec<String>,
    columns: usize,
    sort: Option<SortMode>,
    /// Where there are no values, the answer is that of another query with the same label.
    label: Option<String>,
}

async fn ask(
    database: &Database,
    file: &str,
    sql: &str,
    mut expected: Expected,
    labels: &mut HashMap<String, Vec<Vec<String>>>,
) -> Outcome {
    let words: Vec<String> =
        sql.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_lowercase).collect();
    let lost = database.lost.iter().find(|(name, _)| words.contains(&name.to_lowercase()));
    if let Some((_, why)) = lost {
        return Outcome::NotAsked(report::construct(why));
    }
    let answer = match database.query(sql).await {
        Ok(answer) => answer,
        Err(error) => return Outcome::Refused(report::construct(&error.0)),
    };
    let rows = values::rows(&answer.batches);
    let is_ordered = is_ordered(sql);
    // Rows in no order come in any.
    let sort = match expected.sort {
        None | Some(SortMode::NoSort) if !is_ordered => Some(SortMode::RowSort),
        sort => sort,
    };
    if let (Some(label), true) = (&expected.label, expected.values.is_empty()) {
        match labels.get(label) {
            Some(rows) => expected.values = rows.iter().map(|row| row.join("\t")).collect(),
            None => {
                labels.insert(label.clone(), rows);
                return Outcome::Right;
            }
        }
    }
    if values::agree(&rows, &expected.values, expected.columns, sort) {
        return Outcome::Right;
    }
    if let Some(nulls_last) = decided::nulls_last(sql)
        && let Ok(answer) = database.query(&nulls_last).await
        && values::agree(&values::rows(&answer.batches), &expected.values, expected.columns, sort)
    {
        return Outcome::Decided("NULLs come first in a descending order");
    }
    let width = rows.first().map_or(0, Vec::len);
    let lines: Vec<Vec<String>> =
        expected.values.iter().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    if lines.iter().all(|line| line.len() == width)
        && decided::denies_nulls_first(sql, &lines)
        && values::agree(&rows, &expected.values, expected.columns, Some(SortMode::RowSort))
    {
        return Outcome::Decided("NULLS FIRST has NULLs first, where a file has not");
    }
    for (related, row) in decided::RELATIONS {
        if values::agree_by(&rows, &expected.values, expected.columns, sort, related) {
            return Outcome::Decided(row);
        }
    }
    let is_random = words.iter().any(|word| database.random.contains(word));
    if is_random && values::number_of_rows(&expected.values, width) == rows.len() {
        return Outcome::Decided("random values are others each time");
    }
    if let Some(unlimited) = decided::unlimited(sql)
        && let Ok(answer) = database.query(&unlimited).await
        && values::are_among(&rows, &expected.values, &values::rows(&answer.batches))
    {
        return Outcome::Decided("which rows a limit takes of those in no order");
    }
    let (statement, answer) = decided::hashes(sql, &rows, is_ordered);
    if let Some(row) = decided::listed(file, statement, answer) {
        return Outcome::Decided(row);
    }
    let shown: Vec<String> = rows.iter().take(8).map(|row| row.join("\t")).collect();
    let expected: Vec<&str> = expected.values.iter().take(8).map(String::as_str).collect();
    let shown = shown.join("\n");
    let expected = expected.join("\n");
    Outcome::Wrong(format!(
        "\n{statement:016x} {answer:016x}\n--- expected\n{expected}\n--- actual\n{shown}\n---"
    ))
}

/// Whether a query says in which order its rows come.
fn is_ordered(sql: &str) -> bool {
    let mut depth = 0_i32;
    let outer: String = sql
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        })
        .collect();
    outer.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ").contains("order by")
}
