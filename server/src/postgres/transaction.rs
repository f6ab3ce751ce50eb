//! What a client tells of its connection: transactions, settings, and cursors.

use std::{collections::BTreeMap, sync::Arc};

use basalt_core::query::Literal;
use basalt_sql::script::Part;
use pgwire::messages::{
    response::{CommandComplete, NoticeResponse},
    startup::ParameterStatus,
};

use super::{
    command::Command,
    error::{Error, Result},
    portal::{Held, Portal, reads},
    session::Session,
    settings::Settings,
    wire::End,
};
use crate::{limits, logged, sql::Transaction as Writes};

/// The setting that a block has from the other one when it begins.
const READ_ONLY: &str = "transaction_read_only";
const DEFAULT_READ_ONLY: &str = "default_transaction_read_only";
/// The beginning of the names of settings that only a block has.
const OF_BLOCK: &str = "transaction_";

/// Settings, and what they are set to where they are not as they were at first.
type Local = BTreeMap<&'static str, Option<String>>;

/// A block of BEGIN.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) state: State,
    /// The settings before it.
    before: Option<Settings>,
    /// What was set for it alone, and what the session has there.
    local: Local,
    savepoints: Vec<Savepoint>,
    /// What its statements write, until it is committed.
    pub(super) writes: Arc<Writes>,
    /// How many of them have written.
    pub(super) written: usize,
    /// It is that of a text of statements, without BEGIN.
    pub(super) implicit: bool,
}

impl Transaction {
    /// Whether what is written waits for its end.
    pub(super) fn is_open(&self) -> bool {
        self.state != State::None || self.implicit
    }

    /// The setting that says whether nothing may be written now.
    pub(super) fn read_only(&self) -> &'static str {
        if self.state == State::None { DEFAULT_READ_ONLY } else { READ_ONLY }
    }
}

/// What a transaction goes back to.
#[derive(Debug)]
struct Savepoint {
    name: String,
    settings: Settings,
    local: Local,
    /// The names of those that were open.
    portals: Vec<String>,
    /// See [`Transaction::written`].
    written: usize,
}

/// See [`Transaction`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    None,
    Open,
    Failed,
}

impl Session {
    /// Does what a command says; `parameters` are those of a cursor's query, `formats` are those of an answer's columns, and `describes` that they are told.
    pub(super) async fn obey(
        &mut self,
        command: Command,
        part: &Part,
        parameters: &[Literal],
        formats: &[i16],
        describes: bool,
    ) -> std::result::Result<(), End> {
        if logged::queries() {
            let peer = tracing::field::display(&self.caller.principal);
            let end = part.sql.floor_char_boundary(limits::QUERY_TEXT_BYTES);
            tracing::info!(method = super::METHOD, peer, text = &part.sql[..end], "query");
        }
        let tag = match command {
            Command::Begin(modes) => {
                if self.transaction.state == State::None {
                    // What was written without BEGIN becomes part of it.
                    let before = std::mem::take(&mut self.transaction);
                    self.transaction = Transaction {
                        state: State::Open,
                        before: Some(self.settings.clone()),
                        writes: before.writes,
                        written: before.written,
                        ..Transaction::default()
                    };
                    // Unless its own modes say otherwise.
                    let (_, default) = self.settings.get(DEFAULT_READ_ONLY)?;
                    self.keep_local(READ_ONLY);
                    self.settings.set(READ_ONLY, &[default])?;
                } else {
                    self.warn("25001", "there is already a transaction in progress")?;
                }
                self.set_transaction(&modes)?;
                "BEGIN"
            }
            Command::Commit => {
                let failed = self.transaction.state == State::Failed;
                self.end(!failed).await?;
                if failed { "ROLLBACK" } else { "COMMIT" }
            }
            Command::Rollback => {
                self.end(false).await?;
                "ROLLBACK"
            }
            Command::Savepoint(name) => {
                self.savepoint(name)?;
                "SAVEPOINT"
            }
            Command::Release(name) => {
                let at = self.find_savepoint(&name)?;
                self.transaction.savepoints.truncate(at);
                "RELEASE"
            }
            Command::RollbackTo(name) => {
                self.rollback_to(&name)?;
                "ROLLBACK"
            }
            Command::Set(name, values, true) if self.transaction.state == State::None => {
                self.warn("25P01", "SET LOCAL can only be used in transaction blocks")?;
                // It is looked at, and holds for nothing.
                self.settings.clone().set(&name, &values)?;
                "SET"
            }
            Command::SetDefault(name, true) if self.transaction.state == State::None => {
                self.warn("25P01", "SET LOCAL can only be used in transaction blocks")?;
                self.settings.clone().reset(&name)?;
                "SET"
            }
            Command::Set(name, values, local) => {
                self.is_to_change(&name, local)?;
                let told = self.settings.set(&name, &values)?;
                self.report(told)?;
                "SET"
            }
            Command::SetDefault(name, local) => {
                self.is_to_change(&name, local)?;
                let told = self.settings.reset(&name)?;
                self.report(told)?;
                "SET"
            }
            Command::SetTransaction(_, true) if self.transaction.state == State::None => {
                self.warn("25P01", "SET TRANSACTION can only be used in transaction blocks")?;
                "SET"
            }
            Command::SetTransaction(modes, true) => {
                self.set_transaction(&modes)?;
                "SET"
            }
            Command::SetTransaction(modes, false) => {
                for (name, value) in modes {
                    let name = format!("default_{name}");
                    self.is_to_change(&name, false)?;
                    let told = self.settings.set(&name, &[value.to_owned()])?;
                    self.report(told)?;
                }
                "SET"
            }
            Command::Reset(name) => {
                self.is_to_change(&name, false)?;
                let told = self.settings.reset(&name)?;
                self.report(told)?;
                "RESET"
            }
            Command::ResetAll => {
                self.reset_all()?;
                "RESET"
            }
            Command::Show(name) => {
                let (name, value) = self.settings.get(&name)?;
                self.answer(&[name], &[vec![value]], formats, describes)?;
                "SHOW"
            }
            Command::ShowAll => {
                let rows: Vec<_> = self
                    .settings
                    .all()
                    .into_iter()
                    .map(|(name, value)| vec![name.to_owned(), value])
                    .collect();
                self.answer(&["name", "setting"], &rows, formats, describes)?;
                "SHOW"
            }
            Command::Discard => {
                if self.transaction.state != State::None {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(Error::new("25001", message).into());
                }
                self.reset_all()?;
                self.statements.clear();
                self.portals.clear();
                self.count()?;
                "DISCARD ALL"
            }
            Command::Prepare(name, types, at) => {
                let prepared =
                    part.from(at).ok_or_else(|| Error::new("42601", "PREPARE of which statement?"))?;
                self.keep_prepared(name, Some(prepared), types)?;
                "PREPARE"
            }
            Command::Execute(name, given) => {
                let mut portal = self.executed(&name, given, formats.to_vec(), None).await?;
                self.begin(&mut portal).await?;
                if describes {
                    self.put_description(&portal)?;
                }
                self.fetch(&mut portal, None, true).await?;
                return Ok(());
            }
            Command::Deallocate(None) => {
                self.statements.clear();
                self.count()?;
                "DEALLOCATE ALL"
            }
            Command::Deallocate(Some(name)) => {
                if self.statements.remove(&name).is_none() {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    return Err(Error::new("26000", message).into());
                }
                self.count()?;
                "DEALLOCATE"
            }
            Command::Declare(name, at, is_held) => {
                self.declare(name, part, at, is_held, parameters).await?;
                "DECLARE CURSOR"
            }
            Command::Fetch(rows, name) => return self.fetch_cursor(&name, rows, formats, describes).await,
            Command::Move(rows, name) => return self.move_cursor(&name, rows).await,
            Command::Close(None) => {
                self.portals.clear();
                "CLOSE CURSOR ALL"
            }
            Command::Close(Some(name)) => {
                if self.portals.remove(&name).is_none() {
                    return Err(no_cursor(&name).into());
                }
                "CLOSE CURSOR"
            }
            Command::Nothing(tag) => tag,
        };
        self.wire.put(&CommandComplete::new(tag.to_owned()))?;
        Ok(())
    }

    fn warn(&mut self, code: &str, message: &str) -> Result<()> {
        let fields = [(b'S', "WARNING"), (b'V', "WARNING"), (b'C', code), (b'M', message)];
        let fields = fields.map(|(field, value)| (field, value.to_owned()));
        self.wire.put(&NoticeResponse::new(fields.to_vec()))
    }

    fn report(&mut self, told: Option<(&'static str, String)>) -> Result<()> {
        match told {
            Some((name, value)) => self.wire.put(&ParameterStatus::new(name.to_owned(), value)),
            None => Ok(()),
        }
    }

    fn report_changes(&mut self, before: &Settings) -> Result<()> {
        let changed: Vec<_> = self.settings.reported().zip(before.reported()).collect();
        for (now, before) in changed {
            if now != before {
                self.report(Some(now))?;
            }
        }
        Ok(())
    }

    /// A setting is to change, for this transaction alone or for the session, whose value stays when the transaction is
    /// committed.
    fn is_to_change(&mut self, name: &str, local: bool) -> Result<()> {
        let (name, _) = self.settings.get(name)?;
        if local {
            self.keep_local(name);
        } else if !name.starts_with(OF_BLOCK) {
            self.transaction.local.remove(name);
        }
        Ok(())
    }

    /// Keeps what the session has for a setting that is to change for this transaction alone.
    fn keep_local(&mut self, name: &'static str) {
        let before = self.settings.set_to(name);
        self.transaction.local.entry(name).or_insert(before);
    }

    fn reset_all(&mut self) -> Result<()> {
        let before = self.settings.clone();
        self.settings.reset_all();
        self.transaction.local.retain(|name, _| name.starts_with(OF_BLOCK));
        self.report_changes(&before)
    }

    /// Sets what holds for this transaction alone.
    fn set_transaction(&mut self, modes: &[(&'static str, &'static str)]) -> Result<()> {
        for (name, value) in modes {
            self.keep_local(name);
            self.settings.set(name, &[(*value).to_owned()])?;
        }
        Ok(())
    }

    /// Ends the transaction, and commits what was written in it. What was set in it stays if it is committed, but for what
    /// was set for it alone.
    async fn end(&mut self, commits: bool) -> std::result::Result<(), End> {
        let transaction = std::mem::take(&mut self.transaction);
        self.portals.retain(|_, portal| portal.is_held());
        let committed = match commits {
            true => self.commit(&transaction).await,
            false => {
                transaction.writes.roll_back().await;
                Ok(())
            }
        };
        let stays = commits && committed.is_ok();
        self.portals.retain(|_, portal| portal.outlives(stays));
        self.end_settings(transaction, stays)?;
        committed
    }

    /// Commits what was written. Once begun it goes on, whoever goes: nobody is told that it was cancelled.
    pub(super) async fn commit(&mut self, transaction: &Transaction) -> std::result::Result<(), End> {
        if transaction.written == 0 {
            return Ok(());
        }
        Ok(transaction.writes.commit(&self.shared.state).await.map_err(Error::from)?)
    }

    fn end_settings(&mut self, transaction: Transaction, commits: bool) -> Result<()> {
        let Some(before) = transaction.before else {
            return self.warn("25P01", "there is no transaction in progress");
        };
        let now = self.settings.clone();
        match commits {
            true => {
                transaction.local.into_iter().for_each(|(name, value)| self.settings.restore(name, value));
            }
            false => self.settings = before,
        }
        self.report_changes(&now)
    }

    fn savepoint(&mut self, name: String) -> Result<()> {
        if self.transaction.state == State::None {
            return Err(Error::new("25P01", "SAVEPOINT can only be used in transaction blocks"));
        }
        if self.transaction.savepoints.len() >= limits::POSTGRES_SAVEPOINTS {
            return Err(Error::new("53400", format!("more than {} savepoints", limits::POSTGRES_SAVEPOINTS)));
        }
        let (settings, portals) = (self.settings.clone(), self.portals.keys().cloned().collect());
        let (local, written) = (self.transaction.local.clone(), self.transaction.written);
        self.transaction.savepoints.push(Savepoint { name, settings, local, portals, written });
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        let at = self.transaction.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        at.ok_or_else(|| Error::new("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    /// Goes back to a savepoint, which stays. Whatever has failed since is over.
    fn rollback_to(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint(name)?;
        self.transaction.savepoints.truncate(at + 1);
        let Some(savepoint) = self.transaction.savepoints.last() else { return Ok(()) };
        if savepoint.written < self.transaction.written {
            let message = "what was written since a savepoint is not undone alone: ROLLBACK undoes all of it";
            return Err(Error::unsupported(message));
        }
        self.portals.retain(|name, _| savepoint.portals.contains(name));
        let before = std::mem::replace(&mut self.settings, savepoint.settings.clone());
        self.transaction.local = savepoint.local.clone();
        self.transaction.state = State::Open;
        self.report_changes(&before)
    }

    async fn declare(
        &mut self,
        name: String,
        part: &Part,
        at: usize,
        is_held: bool,
        parameters: &[Literal],
    ) -> std::result::Result<(), End> {
        let is_alone = self.transaction.state == State::None;
        if is_alone && !is_held {
            return Err(Error::new("25P01", "DECLARE CURSOR can only be used in transaction blocks").into());
        }
        if self.portals.contains_key(&name) {
            return Err(Error::new("42P03", format!("cursor \"{name}\" already exists")).into());
        }
        let mut portal = Portal::new(Some(declared(part, at)?), parameters.to_vec(), Vec::new(), None);
        if is_held {
            portal.hold(if is_alone { Held::Always } else { Held::OfBlock });
        }
        self.begin(&mut portal).await?;
        self.keep(name, portal)?;
        Ok(())
    }

    async fn fetch_cursor(
        &mut self,
        name: &str,
        rows: Option<u64>,
        formats: &[i16],
        describes: bool,
    ) -> std::result::Result<(), End> {
        let mut portal = self.cursor(name).await?;
        portal.set_formats(formats)?;
        if describes {
            self.put_description(&portal)?;
        }
        let sent = self.fetch(&mut portal, rows, false).await?;
        self.portals.insert(name.to_owned(), portal);
        self.wire.put(&CommandComplete::new(format!("FETCH {sent}")))?;
        Ok(())
    }

    /// Passes over rows of a cursor, which goes on in the form in which it was.
    async fn move_cursor(&mut self, name: &str, rows: Option<u64>) -> std::result::Result<(), End> {
        let mut portal = self.cursor(name).await?;
        portal.set_passing(true);
        let passed = self.fetch(&mut portal, rows, false).await?;
        portal.set_passing(false);
        self.portals.insert(name.to_owned(), portal);
        self.wire.put(&CommandComplete::new(format!("MOVE {passed}")))?;
        Ok(())
    }

    /// Takes a cursor, to go on with it. A query that was bound to a portal may not have begun.
    async fn cursor(&mut self, name: &str) -> std::result::Result<Portal, End> {
        let portal = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
        // As PostgreSQL has it. The statement would not run, and its client would take it for one that wrote nothing.
        if !self.is_query(portal)? {
            let message =
                format!("the portal \"{name}\" is of a statement without rows to fetch: Execute runs it");
            return Err(Error::unsupported(message).into());
        }
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        match portal.is_begun() {
            true => portal.goes_on(self.key.begin()),
            false => self.begin(&mut portal).await?,
        }
        Ok(portal)
    }
}

/// The query of a cursor, which begins at a word.
pub(super) fn declared(part: &Part, at: usize) -> Result<Part> {
    let query = part.from(at).filter(reads);
    query.ok_or_else(|| Error::new("42601", "DECLARE CURSOR takes a query"))
}

pub(super) fn no_cursor(name: &str) -> Error {
    Error::new("34000", format!("cursor \"{name}\" does not exist"))
}
