//! What a client sets for its connection: `basalt_sql::settings` says what there is to set, and to what.

use std::{collections::BTreeMap, time::Duration};

use basalt_sql::settings::{self, Setting, Wrong};

use super::error::{Error, Result};
use crate::limits;

/// The setting of a name.
fn known(name: &str) -> Result<&'static Setting> {
    Ok(settings::known(name)?)
}

/// The settings of a connection.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    user: String,
    /// How long a statement may run where the client says nothing.
    timeout: Duration,
    /// Those that are not as they were at first.
    changed: BTreeMap<&'static str, String>,
    /// What the client has asked for as it came, to which RESET goes back.
    first: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Who has connected.
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn new(user: &str, timeout: Duration) -> Self {
        Self { user: user.to_owned(), timeout, changed: BTreeMap::new(), first: BTreeMap::new() }
    }

    /// What was set until now is what a client came with.
    pub(super) fn started(&mut self) {
        self.first = self.changed.clone();
    }

    fn value(&self, known: &Setting) -> String {
        match self.changed.get(known.name()) {
            Some(value) => value.clone(),
            None if known.name() == "session_authorization" => self.user.clone(),
            None => known.at_first(self.timeout),
        }
    }

    pub(super) fn get(&self, name: &str) -> Result<(&'static str, String)> {
        let known = known(name)?;
        Ok((known.name(), self.value(known)))
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> Vec<(&'static str, String)> {
        settings::all().map(|known| (known.name(), self.value(known))).collect()
    }

    /// Those that a client is told of as it comes.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&'static str, String)> {
        settings::all().filter(|known| known.is_reported()).map(|known| (known.name(), self.value(known)))
    }

    /// Sets one; the values are those of a list. Returns what a client is to be told.
    pub(super) fn set(&mut self, name: &str, values: &[String]) -> Result<Option<(&'static str, String)>> {
        let known = known(name)?;
        let value = checked(known, values)?;
        self.changed.insert(known.name(), value);
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
        if known.is_fixed() {
            return Err(Wrong::Fixed(known.name()).into());
        }
        match self.first.get(known.name()) {
            Some(value) => drop(self.changed.insert(known.name(), value.clone())),
            None => drop(self.changed.remove(known.name())),
        }
        Ok(self.told(known))
    }

    pub(super) fn reset_all(&mut self) {
        self.changed = self.first.clone();
    }

    /// What one is set to, if it is not as it was at first.
    pub(super) fn set_to(&self, name: &str) -> Option<String> {
        self.changed.get(name).cloned()
    }

    /// Puts one back to what it was set to.
    pub(super) fn restore(&mut self, name: &'static str, before: Option<String>) {
        match before {
            Some(value) => drop(self.changed.insert(name, value)),
            None => drop(self.changed.remove(name)),
        }
    }

    fn told(&self, known: &Setting) -> Option<(&'static str, String)> {
        known.is_reported().then(|| (known.name(), self.value(known)))
    }

    /// How long a statement may run; `None`: as long as the server lets it by itself. Of 0 it is as long as it can be.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let value = self.changed.get("statement_timeout")?;
        let millis: u64 = value.parse().ok()?;
        Some(if millis == 0 { Duration::MAX } else { Duration::from_millis(millis) })
    }
}

fn checked(known: &Setting, values: &[String]) -> Result<String> {
    if values.iter().map(String::len).sum::<usize>() > limits::POSTGRES_NAME_BYTES {
        return Err(Error::limit(format!("the value of \"{}\" is too long", known.name())));
    }
    Ok(known.checked(values)?)
}

impl From<Wrong> for Error {
    fn from(wrong: Wrong) -> Self {
        let state = match wrong {
            Wrong::Unknown(_) => "42704",
            Wrong::Fixed(_) => "55P02",
            Wrong::Value(..) => "22023",
        };
        Self::new(state, wrong.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_with_their_meaning_or_refused() {
        let mut settings = Settings::new("me", Duration::from_secs(30));
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
        assert!(set("search_path", "other, public").is_ok() && set("search_path", "o(, public").is_err());
        assert!(set("statement_timeout", "2 min").is_ok());
        assert_eq!(settings.timeout(), Some(Duration::from_secs(120)));
        assert_eq!(settings.get("statement_timeout").unwrap().1, "120000");
        settings.reset("statement_timeout").unwrap();
        assert_eq!(settings.timeout(), None);
        assert_eq!(settings.get("statement_timeout").unwrap().1, "30000");
        settings.set_at_start("client_encoding", "'utf-8'").unwrap();
        settings.set_at_start("TimeZone", "Europe/Berlin").unwrap();
        assert_eq!(settings.get("timezone").unwrap(), ("TimeZone", "UTC".to_owned()));
        assert_eq!(settings.get("session_authorization").unwrap().1, "me");
    }
}
