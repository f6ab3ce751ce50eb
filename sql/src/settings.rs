//! What clients of PostgreSQL set, and what it may be. A setting is taken with its meaning, or refused: none is taken and
//! passed over. A door with sessions keeps what is set; at others a statement is alone, and only what would change nothing of
//! the next one is taken.

use std::{fmt, time::Duration};

use datafusion::sql::sqlparser::ast;

use crate::error::{Error, Result};

/// The version of PostgreSQL whose protocol and system tables clients should expect.
pub const SERVER_VERSION: &str = "15.0";
/// See [`SERVER_VERSION`].
const SERVER_VERSION_NUMBER: &str = "150000";

/// What a setting may be.
#[derive(Clone, Copy)]
enum Kind {
    /// It cannot be set.
    Fixed,
    /// One of these, of which the first is what it becomes.
    One(&'static [&'static str]),
    /// Any of these.
    Any(&'static [&'static str]),
    /// `on` or `off`.
    Switch,
    /// Milliseconds, or a number with a unit.
    Time,
    /// A whole number from one on.
    AtLeast(i64),
    DateStyle,
    SearchPath,
    Text,
}

/// A setting: its name, what it is at first, what it may be, and whether clients are told when it changes.
#[derive(Clone, Copy)]
pub struct Setting(&'static str, &'static str, Kind, bool);

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Setting").field(&self.0).finish()
    }
}

/// Why there is no such setting, or why it is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// None has this name.
    Unknown(String),
    /// It cannot be changed.
    Fixed(&'static str),
    /// It does not take this value.
    Value(&'static str, String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "unrecognized configuration parameter \"{name}\""),
            Self::Fixed(name) => write!(f, "parameter \"{name}\" cannot be changed"),
            Self::Value(name, value) => write!(f, "invalid value for parameter \"{name}\": \"{value}\""),
        }
    }
}

/// How long a statement may run: the only setting that the server's own say.
const STATEMENT_TIMEOUT: &str = "statement_timeout";

const UTC: &[&str] =
    &["UTC", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Universal", "Zulu", "Z", "0", "+00", "+00:00"];
const LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error", "info"];
const COMMITTED: &[&str] = &["read committed", "read uncommitted"];

const KNOWN: [Setting; 33] = [
    Setting("application_name", "", Kind::Text, true),
    Setting("bytea_output", "hex", Kind::One(&["hex"]), false),
    Setting("client_encoding", "UTF8", Kind::One(&["UTF8", "utf-8", "unicode"]), true),
    Setting("client_min_messages", "notice", Kind::Any(LEVELS), false),
    Setting("DateStyle", "ISO, MDY", Kind::DateStyle, true),
    Setting("default_transaction_isolation", "read committed", Kind::One(COMMITTED), false),
    Setting("default_transaction_read_only", "off", Kind::Switch, true),
    Setting("extra_float_digits", "1", Kind::AtLeast(1), false),
    Setting("idle_in_transaction_session_timeout", "0", Kind::One(&["0"]), false),
    Setting("in_hot_standby", "off", Kind::Fixed, true),
    Setting("integer_datetimes", "on", Kind::Fixed, true),
    Setting("IntervalStyle", "postgres", Kind::One(&["postgres"]), true),
    Setting("is_superuser", "off", Kind::Fixed, true),
    Setting("jit", "off", Kind::One(&["off", "false", "0"]), false),
    Setting("lc_collate", "C", Kind::Fixed, false),
    Setting("lc_ctype", "C", Kind::Fixed, false),
    Setting("lock_timeout", "0", Kind::Time, false),
    Setting("max_identifier_length", "128", Kind::Fixed, false),
    Setting("max_index_keys", "32", Kind::Fixed, false),
    Setting("password_encryption", "scram-sha-256", Kind::Fixed, false),
    // There are no policies of rows, so that it changes nothing.
    Setting("row_security", "on", Kind::Switch, false),
    Setting("search_path", "\"$user\", public", Kind::SearchPath, false),
    Setting("server_encoding", "UTF8", Kind::Fixed, true),
    Setting("server_version", SERVER_VERSION, Kind::Fixed, true),
    Setting("server_version_num", SERVER_VERSION_NUMBER, Kind::Fixed, false),
    Setting("session_authorization", "", Kind::Fixed, true),
    Setting("standard_conforming_strings", "on", Kind::One(&["on", "true", "1"]), true),
    Setting(STATEMENT_TIMEOUT, "0", Kind::Time, false),
    Setting("TimeZone", "UTC", Kind::One(UTC), true),
    Setting("transaction_isolation", "read committed", Kind::One(COMMITTED), false),
    Setting("transaction_read_only", "off", Kind::Switch, false),
    Setting("wal_level", "replica", Kind::Fixed, false),
    Setting("xmlbinary", "base64", Kind::Fixed, false),
];

/// All of them, in order.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    KNOWN.iter()
}

/// The setting of a name, whatever its case.
///
/// # Errors
/// There is none.
pub fn known(name: &str) -> std::result::Result<&'static Setting, Wrong> {
    let name = match name.to_lowercase().as_str() {
        "session characteristics" => "default_transaction_isolation".to_owned(),
        lower => lower.to_owned(),
    };
    KNOWN.iter().find(|known| known.0.eq_ignore_ascii_case(&name)).ok_or(Wrong::Unknown(name))
}

impl Setting {
    /// Its name, as it is shown.
    pub fn name(&self) -> &'static str {
        self.0
    }

    /// What it is before anybody sets it, where a statement may run so long.
    pub fn at_first(&self, timeout: Duration) -> String {
        match self.0 {
            STATEMENT_TIMEOUT => timeout.as_millis().to_string(),
            _ => self.1.to_owned(),
        }
    }

    /// Whether it cannot be set.
    pub fn is_fixed(&self) -> bool {
        matches!(self.2, Kind::Fixed)
    }

    /// Whether clients are told when it changes.
    pub fn is_reported(&self) -> bool {
        self.3
    }

    /// What it becomes by the values of a list.
    ///
    /// # Errors
    /// It cannot be set, or not to this.
    pub fn checked(&self, values: &[String]) -> std::result::Result<String, Wrong> {
        let all = values.join(", ");
        let refused = || Wrong::Value(self.0, all.clone());
        let among =
            |list: &[&'static str]| list.iter().find(|one| one.eq_ignore_ascii_case(all.trim())).copied();
        match self.2 {
            Kind::Fixed => Err(Wrong::Fixed(self.0)),
            Kind::One(list) => match (among(list), list.first()) {
                (Some(_), Some(first)) => Ok((*first).to_owned()),
                _ => Err(refused()),
            },
            Kind::Any(list) => among(list).map(str::to_owned).ok_or_else(refused),
            Kind::Switch => match all.to_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
                "off" | "false" | "no" | "0" => Ok("off".to_owned()),
                _ => Err(refused()),
            },
            Kind::Time => time(&all).map(|millis| millis.to_string()).ok_or_else(refused),
            Kind::AtLeast(least) => all
                .parse()
                .ok()
                .filter(|value: &i64| *value >= least)
                .map(|value| value.to_string())
                .ok_or_else(refused),
            Kind::DateStyle => date_style(&all).ok_or_else(refused),
            Kind::SearchPath => search_path(values).ok_or_else(refused),
            Kind::Text => Ok(all),
        }
    }
}

/// `5000`, `5s`, `1500 ms`, `2min`, as milliseconds.
fn time(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    let unit = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Dates are read and written as ISO 8601 has them, whatever order is named beside it.
fn date_style(text: &str) -> Option<String> {
    let mut order = "MDY";
    for word in text.split(',') {
        match word.trim().to_uppercase().as_str() {
            "ISO" => {}
            "MDY" | "US" => order = "MDY",
            "DMY" | "EUROPEAN" => order = "DMY",
            "YMD" => order = "YMD",
            _ => return None,
        }
    }
    Some(format!("ISO, {order}"))
}

/// All tables are in one schema, so it must be among those that are searched. Others may be named that are not there, as in
/// PostgreSQL.
fn search_path(values: &[String]) -> Option<String> {
    let names: Vec<_> =
        values.iter().flat_map(|value| value.split(',')).map(|name| name.trim().trim_matches('"')).collect();
    let is_plain = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !names.contains(&"public") || !names.iter().all(|name| *name == "$user" || is_plain(name)) {
        return None;
    }
    let quoted = names.iter().map(|name| if *name == "$user" { "\"$user\"" } else { name });
    Some(quoted.collect::<Vec<_>>().join(", "))
}

/// Settings that the next statement would be answered otherwise by.
const LASTING: [&str; 4] =
    [STATEMENT_TIMEOUT, "lock_timeout", "default_transaction_read_only", "transaction_read_only"];

/// What a statement about settings asks for, where there is no session.
pub(crate) enum About {
    /// SHOW of one.
    One(&'static Setting),
    /// SHOW ALL.
    All,
    /// SET or RESET, of something that changes nothing.
    Nothing,
}

/// What a statement says of settings; `None`: it is about something else.
pub(crate) fn about(statement: &ast::Statement) -> Result<Option<About>> {
    let wrong = |wrong: Wrong| Error::invalid(wrong.to_string());
    let spelled = |name: &ast::ObjectName| name.to_string().replace('"', "");
    let set = |name: &str, values: &[String]| {
        let setting = known(name).map_err(wrong)?;
        if values.iter().all(|value| value.eq_ignore_ascii_case("default")) && !setting.is_fixed() {
            return Ok(About::Nothing);
        }
        let value = setting.checked(values).map_err(wrong)?;
        if LASTING.contains(&setting.0) && value != setting.1 {
            let name = setting.0;
            return Err(Error::invalid(format!(
                "SET {name} lasts as long as a session, and there is none here: each statement is one of its own (the door \
                 of PostgreSQL's clients has sessions; --timeout, or a deadline, ends a statement here)"
            )));
        }
        Ok(About::Nothing)
    };
    let about = match statement {
        ast::Statement::ShowVariable { variable } => {
            let words: Vec<_> = variable.iter().map(|word| word.value.to_lowercase()).collect();
            match words.join(" ").as_str() {
                "all" => About::All,
                "time zone" => one("TimeZone").map_err(wrong)?,
                "transaction isolation level" => one("transaction_isolation").map_err(wrong)?,
                _ => one(&words.join(".")).map_err(wrong)?,
            }
        }
        ast::Statement::Set(ast::Set::SingleAssignment { variable, values, .. }) => {
            let values: Vec<_> = values.iter().map(text).collect();
            match spelled(variable).to_lowercase().as_str() {
                "names" => set("client_encoding", &values)?,
                name => set(name, &values)?,
            }
        }
        ast::Statement::Set(ast::Set::SetTimeZone { value, .. }) => match text(value) {
            local if local.eq_ignore_ascii_case("local") => About::Nothing,
            zone => set("TimeZone", &[zone])?,
        },
        ast::Statement::Set(ast::Set::SetNames { charset_name, .. }) => {
            set("client_encoding", std::slice::from_ref(&charset_name.value))?
        }
        ast::Statement::Set(ast::Set::SetNamesDefault {}) => About::Nothing,
        ast::Statement::Reset(ast::ResetStatement { reset }) => match reset {
            ast::Reset::ALL => About::Nothing,
            ast::Reset::ConfigurationParameter(name) => reset_of(&spelled(name))?,
        },
        _ => return Ok(None),
    };
    Ok(Some(about))
}

/// RESET of a setting.
pub(crate) fn reset_of(name: &str) -> Result<About> {
    let setting = known(name).map_err(|wrong| Error::invalid(wrong.to_string()))?;
    match setting.is_fixed() {
        true => Err(Error::invalid(Wrong::Fixed(setting.0).to_string())),
        false => Ok(About::Nothing),
    }
}

fn one(name: &str) -> std::result::Result<About, Wrong> {
    known(name).map(About::One)
}

/// A value as it is written, without its quotes.
fn text(expr: &ast::Expr) -> String {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(name) => name.value.clone(),
        other => other.to_string(),
    }
}
