//! A connection from its start to its end: who it is, what it has set, its transaction, and texts of statements.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use basalt_sql::script::{self, Part, Word};
use bytes::Buf as _;
use pgwire::messages::{
    DecodeContext, Message as _,
    cancel::CancelRequest,
    response::{CommandComplete, EmptyQueryResponse, NoticeResponse, ReadyForQuery, TransactionStatus},
    startup::{
        Authentication, BackendKeyData, GssEncRequest, NegotiateProtocolVersion, ParameterStatus, SecretKey,
        SslRequest, Startup,
    },
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Shared,
    cancel::Key,
    command::{self, Command},
    error::{Error, Result},
    extended::Prepared,
    portal::Portal,
    settings::Settings,
    wire::{End, Frontend, Wire},
};
use crate::{
    access::{Action, Caller, Object, Principal},
    connection::Connection,
    environment::Stream,
    limits,
    memory::{Consumer, Reservation},
};

/// A connection that has started.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) wire: Wire,
    pub(super) caller: Caller,
    pub(super) connection: Arc<Connection>,
    pub(super) key: Key,
    pub(super) settings: Settings,
    pub(super) transaction: Transaction,
    pub(super) statements: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
    /// For the connection, and what it keeps.
    pub(super) memory: Reservation,
    /// A message of the extended protocol failed: those until the next Sync are passed over.
    pub(super) skips: bool,
}

/// A block of BEGIN.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) state: State,
    /// The settings before it.
    before: Option<Settings>,
    /// What was set for it alone.
    local: Vec<&'static str>,
    savepoints: Vec<Savepoint>,
}

/// What a transaction goes back to.
#[derive(Debug)]
struct Savepoint {
    name: String,
    settings: Settings,
    /// The names of those that were open.
    portals: Vec<String>,
}

/// See [`Transaction`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    None,
    Open,
    Failed,
}

/// How a connection begins.
enum First {
    Startup(Startup),
    Cancel(CancelRequest),
}

/// Serves a connection. One without a `permit` is told that there is no place; `passing` is held until it has its own.
pub(super) async fn serve(
    stream: Box<dyn Stream>,
    address: SocketAddr,
    shared: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
    passing: OwnedSemaphorePermit,
) {
    let mut wire = Wire::new(stream, &shared.state);
    let first = timeout(limits::POSTGRES_STARTUP_TIMEOUT, first(&mut wire)).await;
    let started = match first {
        Ok(Ok(First::Cancel(request))) => {
            shared.keys.cancel(request.pid, &request.secret_key.to_bytes());
            return wire.shutdown().await;
        }
        Ok(Ok(First::Startup(_))) if permit.is_none() => {
            Err((Error::new("53300", "sorry, too many clients already").fatal().into(), wire))
        }
        Ok(Ok(First::Startup(startup))) => Session::start(shared, wire, address, startup).await,
        Ok(Err(end)) => Err((end, wire)),
        Err(_) => return,
    };
    drop(passing);
    let (end, mut wire) = match started {
        Ok(mut session) => {
            let end = session.run().await;
            (end, session.wire)
        }
        Err(failed) => failed,
    };
    if let End::Error(error) = end {
        tracing::debug!(%address, error = error.message(), "a connection of PostgreSQL ends");
        if wire.put(&error.fatal().response()).is_ok() {
            let _ = wire.flush().await;
        }
    }
    wire.shutdown().await;
    drop(permit);
}

/// The first message that is no question for encryption, of which there is none.
async fn first(wire: &mut Wire) -> std::result::Result<First, End> {
    let context = DecodeContext::default();
    let malformed = |_| Error::protocol("invalid startup packet").fatal();
    // Once for TLS, once for GSS.
    for _ in 0..3 {
        let mut bytes = wire.first().await?;
        if SslRequest::is_ssl_request_packet(&bytes) || GssEncRequest::is_gss_enc_request_packet(&bytes) {
            wire.send(b"N").await?;
        } else if CancelRequest::is_cancel_request_packet(&bytes) {
            let request = CancelRequest::decode(&mut bytes, &context).map_err(malformed)?;
            return request.map(First::Cancel).ok_or(End::Gone);
        } else if (&bytes[4..]).get_u16() != 3 {
            return Err(Error::unsupported("unsupported frontend protocol").fatal().into());
        } else {
            let startup = Startup::decode(&mut bytes, &context).map_err(malformed)?;
            return startup.map(First::Startup).ok_or(End::Gone);
        }
    }
    Err(Error::protocol("invalid startup packet").fatal().into())
}

impl Session {
    async fn start(
        shared: Arc<Shared>,
        mut wire: Wire,
        address: SocketAddr,
        startup: Startup,
    ) -> std::result::Result<Self, (End, Wire)> {
        match Self::greet(&shared, &mut wire, address, startup).await {
            Ok((caller, key, settings, memory)) => Ok(Self {
                shared,
                wire,
                caller,
                connection: Connection::new(),
                key,
                settings,
                transaction: Transaction::default(),
                statements: HashMap::new(),
                portals: HashMap::new(),
                memory,
                skips: false,
            }),
            Err(end) => Err((end, wire)),
        }
    }

    /// Finds out who it is, and says what it needs to know.
    async fn greet(
        shared: &Shared,
        wire: &mut Wire,
        address: SocketAddr,
        startup: Startup,
    ) -> std::result::Result<(Caller, Key, Settings, Reservation), End> {
        let state = &shared.state;
        let mut memory = state.memory.reserve(Consumer::Connections);
        memory.set(limits::CONNECTION_BYTES).map_err(|error| Error::from(error).fatal())?;
        let is_newer = startup.protocol_number_minor >= 2;
        let unknown: Vec<String> =
            startup.parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
        if startup.protocol_number_minor > 2 || !unknown.is_empty() {
            let newest = if is_newer { Startup::PROTOCOL_VERSION_3_2 } else { Startup::PROTOCOL_VERSION_3_0 };
            wire.put(&NegotiateProtocolVersion::new(newest, unknown))?;
        }
        let caller = Self::authenticate(shared, address, &startup)?;
        let settings = first_settings(&startup).map_err(Error::fatal)?;
        if !state.is_ready() {
            let why = if state.is_stopping() { "shutting down" } else { "starting up" };
            return Err(Error::new("57P03", format!("the database system is {why}")).fatal().into());
        }
        wire.put(&Authentication::Ok)?;
        for (name, value) in settings.reported() {
            wire.put(&ParameterStatus::new(name.to_owned(), value))?;
        }
        let key = shared.keys.open(&*state.environment, if is_newer { 32 } else { 4 });
        let secret = SecretKey::Bytes(key.secret.clone().into());
        wire.put(&BackendKeyData::new(key.number, secret))?;
        wire.put(&ReadyForQuery::new(TransactionStatus::Idle))?;
        wire.flush().await?;
        Ok((caller, key, settings, memory))
    }

    /// Who it is. Any user is let in, as somebody who has not said who he is: a password, and SCRAM that asks for it, come
    /// here, before anything else is said.
    fn authenticate(shared: &Shared, address: SocketAddr, startup: &Startup) -> Result<Caller> {
        if startup.parameters.get("user").is_none_or(String::is_empty) {
            return Err(Error::new("28000", "no PostgreSQL user name specified in startup packet").fatal());
        }
        let caller =
            Caller { principal: Principal::Anonymous(address), access: shared.state.access.clone() };
        let allowed = caller.authorise(Action::Probe, Object::Server);
        allowed.map_err(|error| Error::from(error).fatal())?;
        Ok(caller)
    }

    /// Answers until the client goes, or must.
    async fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.step().await {
                return end;
            }
        }
    }

    async fn step(&mut self) -> std::result::Result<(), End> {
        self.wait().await?;
        let (tag, message) = self.wire.message().await?;
        let done = match message {
            Ok(Frontend::Terminate) => return Err(End::Gone),
            Ok(Frontend::Query(sql)) => {
                self.skips = false;
                self.simple(&sql).await
            }
            Ok(Frontend::Sync) => {
                self.skips = false;
                if self.transaction.state == State::None {
                    self.portals.clear();
                }
                self.ready().await
            }
            Ok(Frontend::Copy) => Ok(()),
            Ok(Frontend::Flush) => self.wire.flush().await,
            _ if self.skips => Ok(()),
            Ok(message) => self.extended(message).await,
            Err(error) => Err(error.into()),
        };
        self.wire.forget();
        match done {
            Err(End::Error(error)) if !error.is_fatal() => {
                self.failed(&error)?;
                if tag == b'Q' {
                    return self.ready().await;
                }
                self.skips = true;
                self.wire.flush().await
            }
            done => done,
        }
    }

    /// Waits until a message begins. Portals do not outlive their statement's deadline.
    async fn wait(&mut self) -> std::result::Result<(), End> {
        loop {
            let expires = self.portals.values().filter_map(Portal::deadline).min();
            let passed = async {
                match expires {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.shared.closing.cancelled() => return Err(Error::stopping().fatal().into()),
                begins = self.wire.begins() => return begins,
                () = passed => {
                    let now = Instant::now();
                    self.portals.values_mut().for_each(|portal| portal.expire(now));
                }
            }
        }
    }

    /// Tells of an error, which fails the transaction.
    fn failed(&mut self, error: &Error) -> Result<()> {
        if self.transaction.state == State::Open {
            self.transaction.state = State::Failed;
        }
        let (code, peer) = (error.code(), tracing::field::display(self.caller.principal));
        tracing::info!(method = "postgres", code, error = error.message(), peer, "request");
        self.wire.put(&error.response())
    }

    async fn ready(&mut self) -> std::result::Result<(), End> {
        let status = match self.transaction.state {
            State::None => TransactionStatus::Idle,
            State::Open => TransactionStatus::Transaction,
            State::Failed => TransactionStatus::Error,
        };
        self.wire.put(&ReadyForQuery::new(status))?;
        self.wire.flush().await
    }

    /// A text of statements.
    async fn simple(&mut self, sql: &str) -> std::result::Result<(), End> {
        self.portals.remove("");
        let parts = split(sql)?;
        if parts.is_empty() {
            self.wire.put(&EmptyQueryResponse::new())?;
        }
        for part in &parts {
            match self.command_of(part)? {
                Some(command) => self.obey(command, part, &[], true).await?,
                None => {
                    let mut portal = Portal::new(Some(part.clone()), Vec::new(), Vec::new(), None);
                    self.begin(&mut portal).await?;
                    self.put_description(&portal)?;
                    self.fetch(&mut portal, None, true).await?;
                }
            }
        }
        if self.transaction.state == State::None {
            self.portals.clear();
        }
        self.ready().await
    }

    /// The command of a statement that concerns the connection. A transaction that has failed can be ended alone.
    pub(super) fn command_of(&self, part: &Part) -> Result<Option<Command>> {
        let command = command::of(&part.words);
        let ends = matches!(command, Ok(Some(Command::Commit | Command::Rollback | Command::RollbackTo(_))));
        if self.transaction.state == State::Failed && !ends {
            let message =
                "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Error::new("25P02", message));
        }
        command
    }

    /// Does what a command says; `formats` are those of an answer's columns, and `describes` that they are told.
    pub(super) async fn obey(
        &mut self,
        command: Command,
        part: &Part,
        formats: &[i16],
        describes: bool,
    ) -> std::result::Result<(), End> {
        let tag = match command {
            Command::Begin(modes) => {
                if self.transaction.state == State::None {
                    self.transaction = Transaction {
                        state: State::Open,
                        before: Some(self.settings.clone()),
                        ..Transaction::default()
                    };
                } else {
                    self.warn("25001", "there is already a transaction in progress")?;
                }
                self.set_transaction(&modes)?;
                "BEGIN"
            }
            Command::Commit => {
                let failed = self.transaction.state == State::Failed;
                self.end(!failed)?;
                if failed { "ROLLBACK" } else { "COMMIT" }
            }
            Command::Rollback => {
                self.end(false)?;
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
            Command::Set(name, values, local) => {
                let told = self.settings.set(&name, &values)?;
                if local {
                    self.transaction.local.push(self.settings.get(&name)?.0);
                }
                self.report(told)?;
                "SET"
            }
            Command::SetTransaction(modes, true) => {
                self.set_transaction(&modes)?;
                "SET"
            }
            Command::SetTransaction(modes, false) => {
                for (name, value) in modes {
                    let told = self.settings.set(&format!("default_{name}"), &[value.to_owned()])?;
                    self.report(told)?;
                }
                "SET"
            }
            Command::Reset(name) => {
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
                let rows: Vec<_> =
                    self.settings.all().into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
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
            Command::Declare(name, at) => {
                self.declare(name, part, at).await?;
                "DECLARE CURSOR"
            }
            Command::Fetch(rows, name) => return self.fetch_cursor(&name, rows, formats, describes).await,
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

    fn reset_all(&mut self) -> Result<()> {
        let before = self.settings.clone();
        self.settings.reset_all();
        self.report_changes(&before)
    }

    /// Sets what holds for this transaction alone.
    fn set_transaction(&mut self, modes: &[(&'static str, &'static str)]) -> Result<()> {
        for (name, value) in modes {
            self.settings.set(name, &[(*value).to_owned()])?;
            self.transaction.local.push(name);
        }
        Ok(())
    }

    /// Ends the transaction. What was set in it stays if it is committed, but for what was set for it alone.
    fn end(&mut self, commits: bool) -> Result<()> {
        let transaction = std::mem::take(&mut self.transaction);
        self.portals.clear();
        let Some(before) = transaction.before else {
            return self.warn("25P01", "there is no transaction in progress");
        };
        let now = self.settings.clone();
        match commits {
            true => transaction.local.iter().for_each(|name| self.settings.restore(name, &before)),
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
        self.transaction.savepoints.push(Savepoint { name, settings, portals });
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
        self.portals.retain(|name, _| savepoint.portals.contains(name));
        let before = std::mem::replace(&mut self.settings, savepoint.settings.clone());
        self.transaction.state = State::Open;
        self.report_changes(&before)
    }

    async fn declare(&mut self, name: String, part: &Part, at: usize) -> std::result::Result<(), End> {
        if self.transaction.state == State::None {
            return Err(Error::new("25P01", "DECLARE CURSOR can only be used in transaction blocks").into());
        }
        if self.portals.contains_key(&name) {
            return Err(Error::new("42P03", format!("cursor \"{name}\" already exists")).into());
        }
        let query = part.from(at).filter(|query| super::portal::reads(&query.words));
        let query = query.ok_or_else(|| Error::new("42601", "DECLARE CURSOR takes a query"))?;
        let mut portal = Portal::new(Some(query), Vec::new(), Vec::new(), None);
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
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        portal.set_formats(formats)?;
        if describes {
            self.put_description(&portal)?;
        }
        let sent = self.fetch(&mut portal, rows, false).await?;
        self.portals.insert(name.to_owned(), portal);
        self.wire.put(&CommandComplete::new(format!("FETCH {sent}")))?;
        Ok(())
    }
}

pub(super) fn no_cursor(name: &str) -> Error {
    Error::new("34000", format!("cursor \"{name}\" does not exist"))
}

/// The statements of a text.
pub(super) fn split(sql: &str) -> Result<Vec<Part>> {
    script::split(sql).map_err(|error| Error::from(crate::sql::error(error)).of(sql, 0))
}

/// What a client comes with. `options` are those of a command line: `-c name=value`.
fn first_settings(startup: &Startup) -> Result<Settings> {
    // Default: the caller was asked for it.
    let user = startup.parameters.get("user").map(String::as_str).unwrap_or_default();
    let mut settings = Settings::new(user);
    for (name, value) in &startup.parameters {
        match name.as_str() {
            "user" | "database" => {}
            "replication" if ["false", "off", "no", "0"].contains(&value.as_str()) => {}
            "replication" => return Err(Error::unsupported("replication is not supported")),
            "options" => {
                let mut words = value.split_whitespace();
                while let Some(word) = words.next() {
                    let setting = match word {
                        "-c" => words.next(),
                        other => other.strip_prefix("-c").or_else(|| other.strip_prefix("--")),
                    };
                    let (name, value) = setting
                        .and_then(|setting| setting.split_once('='))
                        .ok_or_else(|| Error::new("22023", "options are of the form -c name=value"))?;
                    settings.set_at_start(&name.replace('-', "_"), value)?;
                }
            }
            name if name.starts_with("_pq_.") => {}
            name => settings.set_at_start(name, value)?,
        }
    }
    settings.started();
    Ok(settings)
}

/// Whether a word is one of these.
pub(super) fn is_word(word: Option<&Word>, among: &[&str]) -> bool {
    matches!(word, Some(Word::Plain(word)) if among.contains(&word.as_str()))
}
