//! What a client sets for its connection. A setting is taken with its meaning, or refused: none is taken and passed over.

use std::{collections::BTreeMap, time::Duration};

use super::error::{Error, Result};
use crate::limits;

/// The version of PostgreSQL whose protocol and system tables clients should expect.
pub(super) const SERVER_VERSION: &str = "15.0";
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

/// A setting's name, what it is at first, what it may be, and whether clients are told when it changes.
struct Known(&'static str, &'static str, Kind, bool);

const UTC: &[&str] =
    &["UTC", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Universal", "Zulu", "Z", "0", "+00", "+00:00"];
const LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error", "info"];
const COMMITTED: &[&str] = &["read committed", "read uncommitted"];

const KNOWN: [Known; 31] = [
    Known("application_name", "", Kind::Text, true),
    Known("bytea_output", "hex", Kind::One(&["hex"]), false),
    Known("client_encoding", "UTF8", Kind::One(&["UTF8", "utf-8", "unicode"]), true),
    Known("client_min_messages", "notice", Kind::Any(LEVELS), false),
    Known("DateStyle", "ISO, MDY", Kind::DateStyle, true),
    Known("default_transaction_isolation", "read committed", Kind::One(COMMITTED), false),
    Known("default_transaction_read_only", "off", Kind::Switch, true),
    Known("extra_float_digits", "1", Kind::AtLeast(1), false),
    Known("idle_in_transaction_session_timeout", "0", Kind::One(&["0"]), false),
    Known("in_hot_standby", "off", Kind::Fixed, true),
    Known("integer_datetimes", "on", Kind::Fixed, true),
    Known("IntervalStyle", "postgres", Kind::One(&["postgres"]), true),
    Known("is_superuser", "off", Kind::Fixed, true),
    Known("jit", "off", Kind::One(&["off", "false", "0"]), false),
    Known("lc_collate", "C", Kind::Fixed, false),
    Known("lc_ctype", "C", Kind::Fixed, false),
    Known("lock_timeout", "0", Kind::Time, false),
    Known("max_identifier_length", "128", Kind::Fixed, false),
    Known("max_index_keys", "32", Kind::Fixed, false),
    Known("search_path", "\"$user\", public", Kind::SearchPath, false),
    Known("server_encoding", "UTF8", Kind::Fixed, true),
    Known("server_version", SERVER_VERSION, Kind::Fixed, true),
    Known("server_version_num", SERVER_VERSION_NUMBER, Kind::Fixed, false),
    Known("session_authorization", "", Kind::Fixed, true),
    Known("standard_conforming_strings", "on", Kind::One(&["on", "true", "1"]), true),
    Known("statement_timeout", "0", Kind::Time, false),
    Known("TimeZone", "UTC", Kind::One(UTC), true),
    Known("transaction_isolation", "read committed", Kind::One(COMMITTED), false),
    Known("transaction_read_only", "off", Kind::Switch, false),
    Known("wal_level", "replica", Kind::Fixed, false),
    Known("xmlbinary", "base64", Kind::Fixed, false),
];

fn known(name: &str) -> Result<&'static Known> {
    let name = match name.to_lowercase().as_str() {
        "session characteristics" => "default_transaction_isolation".to_owned(),
        lower => lower.to_owned(),
    };
    KNOWN
        .iter()
        .find(|known| known.0.eq_ignore_ascii_case(&name))
        .ok_or_else(|| Error::new("42704", format!("unrecognized configuration parameter \"{name}\"")))
}

/// The settings of a connection.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    user: String,
    /// Those that are not as they were at first.
    changed: BTreeMap<&'static str, String>,
    /// What the client has asked for as it came, to which RESET goes back.
    first: BTreeMap<&'static str, String>,
}

impl Settings {
    pub(super) fn new(user: &str) -> Self {
        Self { user: user.to_owned(), changed: BTreeMap::new(), first: BTreeMap::new() }
    }

    /// What was set until now is what a client came with.
    pub(super) fn started(&mut self) {
        self.first = self.changed.clone();
    }

    fn value(&self, known: &Known) -> String {
        match self.changed.get(known.0) {
            Some(value) => value.clone(),
            None if known.0 == "session_authorization" => self.user.clone(),
            None => known.1.to_owned(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Result<(&'static str, String)> {
        let known = known(name)?;
        Ok((known.0, self.value(known)))
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> Vec<(&'static str, String)> {
        KNOWN.iter().map(|known| (known.0, self.value(known))).collect()
    }

    /// Those that a client is told of as it comes.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&'static str, String)> {
        KNOWN.iter().filter(|known| known.3).map(|known| (known.0, self.value(known)))
    }

    /// Sets one; the values are those of a list. Returns what a client is to be told.
    pub(super) fn set(&mut self, name: &str, values: &[String]) -> Result<Option<(&'static str, String)>> {
        let known = known(name)?;
        let value = checked(known, values)?;
        self.changed.insert(known.0, value);
        Ok(self.told(known))
    }

    /// A zone of another name is UTC all the same, as the client is told: drivers send that of their machine.
    pub(super) fn set_at_start(&mut self, name: &str, value: &str) -> Result<()> {
        // Some drivers quote it, as in a statement.
        let quoted = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
        let value = quoted.unwrap_or(value);
        match self.set(name, &[value.to_owned()]) {
            Err(_) if name.eq_ignore_ascii_case("TimeZone") => Ok(()),
            set => set.map(drop),
        }
    }

    pub(super) fn reset(&mut self, name: &str) -> Result<Option<(&'static str, String)>> {
        let known = known(name)?;
        if matches!(known.2, Kind::Fixed) {
            return Err(fixed(known));
        }
        match self.first.get(known.0) {
            Some(value) => drop(self.changed.insert(known.0, value.clone())),
            None => drop(self.changed.remove(known.0)),
        }
        Ok(self.told(known))
    }

    pub(super) fn reset_all(&mut self) {
        self.changed = self.first.clone();
    }

    /// Puts one back to what it was in other settings.
    pub(super) fn restore(&mut self, name: &'static str, before: &Self) {
        match before.changed.get(name) {
            Some(value) => drop(self.changed.insert(name, value.clone())),
            None => drop(self.changed.remove(name)),
        }
    }

    fn told(&self, known: &Known) -> Option<(&'static str, String)> {
        known.3.then(|| (known.0, self.value(known)))
    }

    /// How long a statement may run; `None`: as long as the server lets it by itself. Of 0 it is as long as it can be.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let value = self.changed.get("statement_timeout")?;
        let millis: u64 = value.parse().ok()?;
        Some(if millis == 0 { Duration::MAX } else { Duration::from_millis(millis) })
    }
}

fn fixed(known: &Known) -> Error {
    Error::new("55P02", format!("parameter \"{}\" cannot be changed", known.0))
}

fn checked(known: &Known, values: &[String]) -> Result<String> {
    let all = values.join(", ");
    if all.len() > limits::POSTGRES_NAME_BYTES {
        return Err(Error::limit(format!("the value of \"{}\" is too long", known.0)));
    }
    let refused = || {
        let message = format!("invalid value for parameter \"{}\": \"{all}\"", known.0);
        Error::new("22023", message)
    };
    let among = |list: &[&'static str]| list.iter().find(|one| one.eq_ignore_ascii_case(all.trim())).copied();
    match known.2 {
        Kind::Fixed => Err(fixed(known)),
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

/// All tables are in one schema, so it must be among those that are searched.
fn search_path(values: &[String]) -> Option<String> {
    let names: Vec<_> =
        values.iter().flat_map(|value| value.split(',')).map(|name| name.trim().trim_matches('"')).collect();
    let known = ["$user", "public", "pg_catalog", "information_schema"];
    if !names.contains(&"public") || !names.iter().all(|name| known.contains(name)) {
        return None;
    }
    let quoted = names.iter().map(|name| if *name == "$user" { "\"$user\"" } else { name });
    Some(quoted.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_with_their_meaning_or_refused() {
        let mut settings = Settings::new("me");
        let mut set = |name: &str, value: &str| {
            settings.set(name, &[value.to_owned()]).map(|told| told.map(|told| told.1))
        };
        assert_eq!(set("CLIENT_ENCODING", "utf-8").unwrap(), Some("UTF8".to_owned()));
        assert!(set("client_encoding", "latin1").is_err());
        assert_eq!(set("datestyle", "iso, dmy").unwrap(), Some("ISO, DMY".to_owned()));
        assert!(set("datestyle", "German").is_err());
        assert_eq!(set("timezone", "etc/utc").unwrap(), Some("UTC".to_owned()));
        assert!(set("timezone", "Europe/Berlin").is_err());
        assert_eq!(set("extra_float_digits", "3").unwrap(), None);
        assert!(set("extra_float_digits", "0").is_err());
        assert!(set("server_version", "9").is_err() && set("nothing", "1").is_err());
        assert!(set("default_transaction_isolation", "serializable").is_err());
        assert!(set("search_path", "public, pg_catalog").is_ok() && set("search_path", "other").is_err());
        assert!(set("statement_timeout", "2 min").is_ok());
        assert_eq!(settings.timeout(), Some(Duration::from_secs(120)));
        assert_eq!(settings.get("statement_timeout").unwrap().1, "120000");
        settings.reset("statement_timeout").unwrap();
        assert_eq!(settings.timeout(), None);
        settings.set_at_start("client_encoding", "'utf-8'").unwrap();
        settings.set_at_start("TimeZone", "Europe/Berlin").unwrap();
        assert_eq!(settings.get("timezone").unwrap(), ("TimeZone", "UTC".to_owned()));
        assert_eq!(settings.get("session_authorization").unwrap().1, "me");
    }
}
