//! What each role may do, and to which tables.

use std::{fmt, str::FromStr};

use glob::{MatchOptions, Pattern};
use serde::Deserialize;

use super::{Action, Object};

/// What the owner of a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Ask, and keep sets; with all tables, see the cluster and the metrics
    Reader,
    /// That, create tables, and write to them
    Writer,
    /// Everything: drop, alter, attach, verify, cancel queries of others, and COPY with files of the server
    Admin,
}

impl Role {
    fn may(self, action: Action) -> bool {
        match action {
            Action::Read | Action::KeepSet | Action::Observe | Action::Probe => true,
            Action::Write | Action::Create | Action::TakeBack | Action::DropOrTakeBack => {
                self != Self::Reader
            }
            Action::Drop
            | Action::Attach
            | Action::Alter
            | Action::Copy
            | Action::Cancel
            | Action::Verify => self == Self::Admin,
            // Nodes show a certificate.
            Action::Peer => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Admin => "admin",
        })
    }
}

/// Names of tables: `*` stands for any characters, `?` for one, `[ab]` for one of some.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Tables(Pattern);

impl Tables {
    fn has(&self, name: &str) -> bool {
        self.0.matches_with(name, MatchOptions::new())
    }

    fn is_all(&self) -> bool {
        self.0.as_str() == "*"
    }
}

impl FromStr for Tables {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Pattern::new(text) {
            Ok(_) if text.is_empty() => Err("an empty pattern is of no table".to_owned()),
            Ok(pattern) => Ok(Self(pattern)),
            Err(error) => Err(format!("{text:?} is no pattern: {error}")),
        }
    }
}

impl TryFrom<String> for Tables {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// A role over some tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) role: Role,
    pub(crate) tables: Vec<Tables>,
}

impl Grant {
    pub(crate) fn allows(&self, action: Action, object: Object<'_>) -> bool {
        self.role.may(action)
            && match object {
                Object::Table(name) => self.tables.iter().any(|tables| tables.has(name)),
                #[cfg(feature = "sql")]
                Object::View(name) => self.tables.iter().any(|tables| tables.has(name)),
                // What is in them is asked for one by one.
                Object::Tables | Object::Catalog | Object::Sets => true,
                // Its metrics, nodes and files name all tables.
                Object::Server | Object::Query(_) => {
                    action == Action::Probe || self.tables.iter().any(Tables::is_all)
                }
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(role: Role, tables: &[&str]) -> Grant {
        Grant { role, tables: tables.iter().map(|tables| tables.parse().unwrap()).collect() }
    }

    #[test]
    fn each_role_may_what_the_one_before_may_and_more() {
        use Action::*;
        let all = [Read, KeepSet, Probe, Write, Create, Drop, Attach, Alter, Verify, Peer];
        let allowed = |role| {
            let grant = grant(role, &["*"]);
            all.iter().filter(|action| grant.allows(**action, Object::Table("t"))).count()
        };
        assert_eq!([Role::Reader, Role::Writer, Role::Admin].map(allowed), [3, 5, 9]);
        for role in [Role::Reader, Role::Writer] {
            assert!(!grant(role, &["*"]).allows(Copy, Object::Server));
        }
    }

    #[test]
    fn patterns_are_of_whole_names() {
        let grant = grant(Role::Reader, &["sales_*", "day?", "a/b.c"]);
        for name in ["sales_", "sales_2026/eu", "day1", "a/b.c"] {
            assert!(grant.allows(Action::Read, Object::Table(name)), "{name}");
        }
        for name in ["sales", "my_sales_x", "day", "day12", "SALES_1", "a/b.c.d", ""] {
            assert!(!grant.allows(Action::Read, Object::Table(name)), "{name}");
        }
        assert!(
            !grant.allows(Action::Observe, Object::Server) && grant.allows(Action::Probe, Object::Server)
        );
        assert!("".parse::<Tables>().is_err() && "[".parse::<Tables>().is_err());
    }
}
