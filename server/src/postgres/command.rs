//! What concerns a connection alone, and never comes to the tables: transactions, settings, cursors and prepared
//! statements by their names.

use basalt_sql::script::Word;

use super::{
    error::{Error, Result},
    types,
};

/// A statement of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// BEGIN, START TRANSACTION, with what is set for it.
    Begin(Vec<(&'static str, &'static str)>),
    Commit,
    Rollback,
    Savepoint(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// A setting, the values, and whether for a transaction alone.
    Set(String, Vec<String>, bool),
    /// SET TO DEFAULT, of a setting, and whether for a transaction alone.
    SetDefault(String, bool),
    /// SET TRANSACTION.
    SetTransaction(Vec<(&'static str, &'static str)>, bool),
    Reset(String),
    ResetAll,
    Show(String),
    ShowAll,
    /// DISCARD ALL.
    Discard,
    /// The name of a statement, the types of its parameters, and the word with which it begins.
    Prepare(String, Vec<u32>, usize),
    /// A prepared statement, and the texts of its parameters; `None`: NULL.
    Execute(String, Vec<Option<String>>),
    /// A prepared statement; `None`: all.
    Deallocate(Option<String>),
    /// A cursor, the words of its query, which begins at this one, and whether it stays when its transaction is committed.
    Declare(String, usize, bool),
    /// How many rows, of which cursor; `None`: all.
    Fetch(Option<u64>, String),
    /// How many rows are passed over, of which cursor; `None`: all.
    Move(Option<u64>, String),
    /// A cursor; `None`: all.
    Close(Option<String>),
    /// What there is nothing to do for, with its tag: UNLISTEN.
    Nothing(&'static str),
}

/// The command that words are; `None`: a statement over tables.
pub(super) fn of(words: &[Word]) -> Result<Option<Command>> {
    let Some(Word::Plain(first)) = words.first() else { return Ok(None) };
    let rest = words.get(1..).unwrap_or_default();
    Ok(Some(match first.as_str() {
        "begin" => Command::Begin(modes(without(rest, &["work", "transaction"]))?),
        "start" if plain(rest, 0) == Some("transaction") => Command::Begin(modes(&rest[1..])?),
        "commit" | "end" => {
            ended(without(rest, &["work", "transaction"]))?;
            Command::Commit
        }
        "rollback" | "abort" => match without(rest, &["work", "transaction"]) {
            [Word::Plain(to), rest @ ..] if to == "to" => {
                Command::RollbackTo(identifier(without(rest, &["savepoint"]), "ROLLBACK TO")?)
            }
            rest => {
                ended(rest)?;
                Command::Rollback
            }
        },
        "savepoint" => Command::Savepoint(identifier(rest, "SAVEPOINT")?),
        "release" => Command::Release(identifier(without(rest, &["savepoint"]), "RELEASE")?),
        "prepare" if plain(rest, 0) == Some("transaction") => {
            return Err(Error::unsupported("two-phase commit is not supported"));
        }
        "prepare" => prepare(rest)?,
        "execute" => execute(words)?,
        "set" => set(rest)?,
        "reset" => match rest {
            [Word::Plain(all)] if all == "all" => Command::ResetAll,
            _ => Command::Reset(name(rest)?),
        },
        "show" => match rest {
            [Word::Plain(word), ..]
                if ["tables", "columns", "schemas", "databases", "functions", "create", "views"]
                    .contains(&word.as_str()) =>
            {
                return Ok(None);
            }
            [Word::Plain(all)] if all == "all" => Command::ShowAll,
            _ => Command::Show(name(rest)?),
        },
        "discard" => match rest {
            [Word::Plain(all)] if all == "all" => Command::Discard,
            [Word::Plain(plans)] if ["plans", "temp", "temporary", "sequences"].contains(&plans.as_str()) => {
                Command::Nothing("DISCARD")
            }
            _ => return Err(syntax("DISCARD")),
        },
        "deallocate" => match without(rest, &["prepare"]) {
            [Word::Plain(all)] if all == "all" => Command::Deallocate(None),
            [Word::Plain(name) | Word::Name(name)] => Command::Deallocate(Some(name.clone())),
            _ => return Err(syntax("DEALLOCATE")),
        },
        "declare" => declare(rest)?,
        "fetch" => fetch(rest).map(|(rows, name)| Command::Fetch(rows, name))?,
        "move" => {
            // So many rows on, which is one row for FETCH.
            let rest = match rest {
                [Word::Plain(by), counted @ ..] if by == "relative" && counted.len() > 1 => counted,
                all => all,
            };
            fetch(rest).map(|(rows, name)| Command::Move(rows, name))?
        }
        "close" => match rest {
            [Word::Plain(all)] if all == "all" => Command::Close(None),
            [Word::Plain(name) | Word::Name(name)] => Command::Close(Some(name.clone())),
            _ => return Err(syntax("CLOSE")),
        },
        "unlisten" => Command::Nothing("UNLISTEN"),
        "listen" | "notify" => return Err(Error::unsupported("LISTEN and NOTIFY are not supported")),
        "lock" => return Err(Error::unsupported("LOCK is not supported")),
        "do" => return Err(Error::unsupported("DO is not supported")),
        _ => return Ok(None),
    }))
}

/// PREPARE name (types) AS a statement.
fn prepare(words: &[Word]) -> Result<Command> {
    let [Word::Plain(name) | Word::Name(name), rest @ ..] = words else { return Err(syntax("PREPARE")) };
    let types: Vec<&Word> = match rest {
        [Word::Sign(open), inner @ ..] if open == "(" => {
            inner.iter().take_while(|word| !matches!(word, Word::Sign(close) if close == ")")).collect()
        }
        _ => Vec::new(),
    };
    let behind = if rest.len() > types.len() && !types.is_empty() { types.len() + 2 } else { 0 };
    if plain(rest, behind) != Some("as") {
        return Err(syntax("PREPARE"));
    }
    let types = types.split(|word| matches!(word, Word::Sign(comma) if comma == ","));
    let named = types.filter(|words| !words.is_empty()).map(|words| {
        let texts = words.iter().map(|word| match word {
            Word::Plain(word) => Ok(word.as_str()),
            _ => Err(Error::unsupported("types with a length or a scale in PREPARE are not supported")),
        });
        let name = texts.collect::<Result<Vec<_>>>()?.join(" ");
        types::number(&name).ok_or_else(|| Error::new("42704", format!("type \"{name}\" does not exist")))
    });
    // Behind PREPARE, the name and AS.
    Ok(Command::Prepare(name.clone(), named.collect::<Result<_>>()?, behind + 3))
}

/// EXECUTE name (constants).
fn execute(words: &[Word]) -> Result<Command> {
    if words.len() >= basalt_sql::limits::SCRIPT_WORDS {
        return Err(Error::unsupported("EXECUTE with so many parameters is not supported"));
    }
    let [_, Word::Plain(name) | Word::Name(name), rest @ ..] = words else { return Err(syntax("EXECUTE")) };
    let inner = match rest {
        [] => &[],
        [Word::Sign(open), inner @ .., Word::Sign(close)] if open == "(" && close == ")" => inner,
        _ => return Err(syntax("EXECUTE")),
    };
    let parameters = inner.split(|word| matches!(word, Word::Sign(comma) if comma == ","));
    let value = |words: &[Word]| match words {
        [Word::Plain(null)] if null == "null" => Ok(None),
        [Word::Plain(value)] if ["true", "false"].contains(&value.as_str()) => Ok(Some(value.clone())),
        [Word::Text(value) | Word::Number(value)] => Ok(Some(value.clone())),
        [Word::Sign(minus), Word::Number(value)] if minus == "-" => Ok(Some(format!("-{value}"))),
        [] => Err(syntax("EXECUTE")),
        _ => Err(Error::unsupported(
            "EXECUTE takes constants: expressions among its parameters are not supported",
        )),
    };
    let parameters = match inner {
        [] => Vec::new(),
        _ => parameters.map(value).collect::<Result<_>>()?,
    };
    Ok(Command::Execute(name.clone(), parameters))
}

fn syntax(what: &str) -> Error {
    Error::new("42601", format!("syntax error in {what}"))
}

/// The one name that is left.
fn identifier(words: &[Word], of: &str) -> Result<String> {
    match words {
        [Word::Plain(name) | Word::Name(name)] => Ok(name.clone()),
        _ => Err(syntax(of)),
    }
}

fn plain(words: &[Word], at: usize) -> Option<&str> {
    match words.get(at) {
        Some(Word::Plain(word)) => Some(word),
        _ => None,
    }
}

/// What follows one of these words, if it is there.
fn without<'a>(words: &'a [Word], noise: &[&str]) -> &'a [Word] {
    match words {
        [Word::Plain(word), rest @ ..] if noise.contains(&word.as_str()) => rest,
        all => all,
    }
}

fn ended(words: &[Word]) -> Result<()> {
    let words: Vec<_> =
        words.iter().map(|word| if let Word::Plain(word) = word { word } else { "" }).collect();
    match words.as_slice() {
        [] | ["and", "no", "chain"] => Ok(()),
        ["and", "chain"] => Err(Error::unsupported("AND CHAIN is not supported")),
        ["prepared", ..] => Err(Error::unsupported("two-phase commit is not supported")),
        _ => Err(syntax("the end of a transaction")),
    }
}

/// What a transaction is begun with.
fn modes(words: &[Word]) -> Result<Vec<(&'static str, &'static str)>> {
    let mut words: Vec<&str> = words
        .iter()
        .filter_map(|word| match word {
            Word::Plain(word) => Some(word.as_str()),
            Word::Sign(comma) if comma == "," => None,
            _ => Some(""),
        })
        .collect();
    let mut modes = Vec::new();
    while !words.is_empty() {
        let (mode, length) = match words.as_slice() {
            ["isolation", "level", "read", "committed" | "uncommitted", ..] => {
                (Some(("transaction_isolation", "read committed")), 4)
            }
            ["isolation", "level", ..] => {
                let message =
                    "each statement reads what was committed before it: READ COMMITTED alone is supported";
                return Err(Error::unsupported(message));
            }
            ["read", "only", ..] => (Some(("transaction_read_only", "on")), 2),
            ["read", "write", ..] => (Some(("transaction_read_only", "off")), 2),
            ["not", "deferrable", ..] => (None, 2),
            ["deferrable", ..] => (None, 1),
            _ => return Err(syntax("the modes of a transaction")),
        };
        modes.extend(mode);
        words.drain(..length);
    }
    Ok(modes)
}

fn set(words: &[Word]) -> Result<Command> {
    let (local, words) = match words {
        [Word::Plain(word), rest @ ..] if word == "local" => (true, rest),
        [Word::Plain(word), rest @ ..] if word == "session" => (false, rest),
        all => (false, all),
    };
    match words {
        [Word::Plain(word), rest @ ..] if word == "transaction" => {
            Ok(Command::SetTransaction(modes(rest)?, true))
        }
        [Word::Plain(a), Word::Plain(b), Word::Plain(c), rest @ ..]
            if (a.as_str(), b.as_str(), c.as_str()) == ("characteristics", "as", "transaction") =>
        {
            Ok(Command::SetTransaction(modes(rest)?, false))
        }
        [Word::Plain(word), rest @ ..] if word == "names" => {
            Ok(Command::Set("client_encoding".to_owned(), values(rest)?, local))
        }
        [Word::Plain(time), Word::Plain(zone), rest @ ..] if time == "time" && zone == "zone" => {
            match values(offset(rest))?.as_slice() {
                [of] if of == "local" || of == "default" => {
                    Ok(Command::SetDefault("TimeZone".to_owned(), local))
                }
                of => Ok(Command::Set("TimeZone".to_owned(), of.to_vec(), local)),
            }
        }
        [Word::Plain(role), ..] if role == "role" || role == "authorization" => {
            Err(Error::unsupported("SET ROLE is not supported"))
        }
        [Word::Plain(name) | Word::Name(name), between, rest @ ..]
            if matches!(between, Word::Sign(sign) if sign == "=")
                || matches!(between, Word::Plain(to) if to == "to") =>
        {
            match rest {
                [Word::Plain(default)] if default == "default" => {
                    Ok(Command::SetDefault(name.clone(), local))
                }
                _ => Ok(Command::Set(name.clone(), values(rest)?, local)),
            }
        }
        _ => Err(syntax("SET")),
    }
}

/// What a zone is set to, where that is an offset written as an interval: its text.
fn offset(words: &[Word]) -> &[Word] {
    let is = |word: &Word, plain: &str| matches!(word, Word::Plain(word) if word == plain);
    match words {
        [interval, offset @ .., hour, to, minute]
            if is(hour, "hour") && is(to, "to") && is(minute, "minute") && is_offset(interval, offset) =>
        {
            offset
        }
        [interval, offset @ ..] if is_offset(interval, offset) => offset,
        words => words,
    }
}

/// Whether it is an interval of nothing but hours and minutes.
fn is_offset(interval: &Word, offset: &[Word]) -> bool {
    let is_of = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b"+-:".contains(&byte));
    matches!(interval, Word::Plain(word) if word == "interval")
        && matches!(offset, [Word::Text(text)] if is_of(text))
}

/// The values of a list.
fn values(words: &[Word]) -> Result<Vec<String>> {
    let mut values = Vec::new();
    let (mut rest, mut sign) = (words, "");
    loop {
        match rest {
            [Word::Sign(minus), after @ ..] if (minus == "-" || minus == "+") && sign.is_empty() => {
                (sign, rest) = (minus, after);
            }
            [
                Word::Plain(value) | Word::Name(value) | Word::Text(value) | Word::Number(value),
                after @ ..,
            ] => {
                values.push(format!("{}{value}", if sign == "-" { sign } else { "" }));
                sign = "";
                match after {
                    [] => return Ok(values),
                    [Word::Sign(comma), after @ ..] if comma == "," => rest = after,
                    _ => return Err(syntax("the values of SET")),
                }
            }
            _ => return Err(syntax("the values of SET")),
        }
    }
}

/// The name of a setting.
fn name(words: &[Word]) -> Result<String> {
    match words {
        [Word::Plain(name) | Word::Name(name)] => Ok(name.clone()),
        [Word::Plain(time), Word::Plain(zone)] if time == "time" && zone == "zone" => {
            Ok("TimeZone".to_owned())
        }
        [Word::Plain(a), Word::Plain(b), Word::Plain(c)]
            if (a.as_str(), b.as_str(), c.as_str()) == ("transaction", "isolation", "level") =>
        {
            Ok("transaction_isolation".to_owned())
        }
        _ => Err(syntax("the name of a setting")),
    }
}

fn declare(words: &[Word]) -> Result<Command> {
    let [Word::Plain(name) | Word::Name(name), rest @ ..] = words else { return Err(syntax("DECLARE")) };
    let mut is_held = false;
    for (at, word) in rest.iter().enumerate() {
        match word {
            Word::Plain(word) if word == "for" => return Ok(Command::Declare(name.clone(), at + 3, is_held)),
            Word::Plain(word)
                if ["no", "cursor", "without", "hold", "insensitive", "asensitive"]
                    .contains(&word.as_str()) => {}
            Word::Plain(word) if word == "scroll" => {
                let before = at.checked_sub(1).and_then(|before| plain(rest, before));
                if before != Some("no") {
                    return Err(Error::unsupported("cursors that go back are not supported"));
                }
            }
            Word::Plain(word) if word == "with" && plain(rest, at + 1) == Some("hold") => is_held = true,
            _ => return Err(syntax("DECLARE")),
        }
    }
    Err(syntax("DECLARE"))
}

/// How many rows of which cursor.
fn fetch(words: &[Word]) -> Result<(Option<u64>, String)> {
    let (count, rest) = match words {
        [Word::Plain(all), rest @ ..] if all == "all" => (None, rest),
        [Word::Plain(next), rest @ ..] if next == "next" => (Some(1), rest),
        [Word::Plain(forward), Word::Plain(all), rest @ ..] if forward == "forward" && all == "all" => {
            (None, rest)
        }
        [Word::Plain(forward), Word::Number(number), rest @ ..] if forward == "forward" => {
            (Some(rows(number)?), rest)
        }
        [Word::Plain(forward), rest @ ..] if forward == "forward" => (Some(1), rest),
        [Word::Number(number), rest @ ..] => (Some(rows(number)?), rest),
        [Word::Plain(back), ..]
            if ["prior", "first", "last", "absolute", "relative", "backward"].contains(&back.as_str()) =>
        {
            return Err(Error::unsupported("cursors that go back are not supported"));
        }
        rest => (Some(1), rest),
    };
    match without(rest, &["from", "in"]) {
        [Word::Plain(name) | Word::Name(name)] => Ok((count, name.clone())),
        _ => Err(syntax("FETCH")),
    }
}

fn rows(number: &str) -> Result<u64> {
    number.parse().map_err(|_| syntax("FETCH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Result<Option<Command>> {
        of(&basalt_sql::script::split(sql).unwrap().remove(0).words)
    }

    fn command(sql: &str) -> Command {
        parsed(sql).unwrap().unwrap()
    }

    #[test]
    fn what_drivers_send() {
        assert_eq!(command("BEGIN"), Command::Begin(vec![]));
        let read_only = Command::Begin(vec![
            ("transaction_isolation", "read committed"),
            ("transaction_read_only", "on"),
        ]);
        assert_eq!(command("START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"), read_only);
        assert_eq!(command("COMMIT WORK"), Command::Commit);
        assert_eq!(command("abort"), Command::Rollback);
        assert_eq!(command("ROLLBACK TO SAVEPOINT \"A\""), Command::RollbackTo("A".to_owned()));
        assert_eq!(command("RELEASE a"), Command::Release("a".to_owned()));
        let set = |name: &str, values: &[&str], local| {
            Command::Set(name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect(), local)
        };
        assert_eq!(command("SET extra_float_digits = 3"), set("extra_float_digits", &["3"], false));
        assert_eq!(command("SET LOCAL a TO -1, 'b', \"C\""), set("a", &["-1", "b", "C"], true));
        assert_eq!(command("SET NAMES 'utf8'"), set("client_encoding", &["utf8"], false));
        assert_eq!(command("SET TIME ZONE 'UTC'"), set("TimeZone", &["UTC"], false));
        for interval in ["INTERVAL '+00:00' HOUR TO MINUTE", "interval '+00:00'"] {
            assert_eq!(command(&format!("SET TIME ZONE {interval}")), set("TimeZone", &["+00:00"], false));
        }
        assert_eq!(
            command("SET statement_timeout TO DEFAULT"),
            Command::SetDefault("statement_timeout".to_owned(), false)
        );
        assert_eq!(command("SET LOCAL TIME ZONE DEFAULT"), Command::SetDefault("TimeZone".to_owned(), true));
        assert_eq!(command("RESET statement_timeout"), Command::Reset("statement_timeout".to_owned()));
        let both = Command::SetTransaction(vec![("transaction_isolation", "read committed")], false);
        assert_eq!(
            command("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"),
            both
        );
        assert_eq!(
            command("SHOW TRANSACTION ISOLATION LEVEL"),
            Command::Show("transaction_isolation".to_owned())
        );
        assert_eq!(parsed("SHOW CREATE TABLE t").unwrap(), None);
        assert_eq!(command("deallocate \"A\""), Command::Deallocate(Some("A".to_owned())));
        let declared = |at, is_held| Command::Declare("c".to_owned(), at, is_held);
        assert_eq!(command("DECLARE c NO SCROLL CURSOR FOR SELECT 1"), declared(6, false));
        assert_eq!(command("DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1"), declared(6, false));
        // As Django has it.
        assert_eq!(command("DECLARE \"c\" NO SCROLL CURSOR WITH HOLD FOR SELECT 1"), declared(8, true));
        assert_eq!(command("FETCH FORWARD 10 FROM \"c\""), Command::Fetch(Some(10), "c".to_owned()));
        assert_eq!(command("PREPARE p AS SELECT 1"), Command::Prepare("p".to_owned(), Vec::new(), 3));
        let types = vec![types::INT8, types::TEXT];
        assert_eq!(
            command("PREPARE p (bigint, text) AS SELECT $1"),
            Command::Prepare("p".to_owned(), types, 8)
        );
        let given = vec![Some("-1".to_owned()), None, Some("x".to_owned())];
        assert_eq!(command("EXECUTE p (-1, NULL, 'x')"), Command::Execute("p".to_owned(), given));
        assert_eq!(command("EXECUTE p"), Command::Execute("p".to_owned(), Vec::new()));
        assert_eq!(command("FETCH c"), Command::Fetch(Some(1), "c".to_owned()));
        let passed = |rows| Command::Move(rows, "c".to_owned());
        for (sql, rows) in
            [("MOVE c", Some(1)), ("MOVE FORWARD 5 c", Some(5)), ("MOVE RELATIVE 5 FROM c", Some(5))]
        {
            assert_eq!(command(sql), passed(rows), "{sql}");
        }
        assert_eq!(command("MOVE ALL IN c"), passed(None));
        assert_eq!(command("CLOSE ALL"), Command::Close(None));
        for sql in [
            "SELECT 1",
            "SHOW TABLES",
            "WITH a AS (SELECT 1) TABLE a",
            "(SELECT 1)",
            "INSERT INTO t VALUES (1)",
        ] {
            assert_eq!(parsed(sql).unwrap(), None, "{sql}");
        }
        for sql in [
            "SAVEPOINT",
            "ROLLBACK TO a b",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "SET",
            "SET a = ",
            "SET a = 1 2",
            "SET TIME ZONE INTERVAL '1 day'",
            "SET a = INTERVAL '+00:00' HOUR TO MINUTE",
            "DECLARE c SCROLL CURSOR FOR SELECT 1",
            "DECLARE c CURSOR WITH FOR SELECT 1",
            "FETCH PRIOR FROM c",
            "FETCH RELATIVE 2 FROM c",
            "MOVE BACKWARD 2 FROM c",
            "MOVE RELATIVE -2 FROM c",
            "LISTEN a",
            "PREPARE p SELECT 1",
            "PREPARE p (nothing) AS SELECT 1",
            "EXECUTE p (1 + 1)",
            "EXECUTE p (1,)",
            "COMMIT AND CHAIN",
        ] {
            assert!(parsed(sql).is_err(), "{sql}");
        }
    }
}
