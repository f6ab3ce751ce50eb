//! A connection from its start to its end: who it is, what it has set, its transaction, and texts of statements.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use basalt_sql::script::{self, Part, Word};
use bytes::Buf as _;
use pgwire::messages::{
    DecodeContext, Message as _,
    cancel::CancelRequest,
    response::{EmptyQueryResponse, ReadyForQuery, TransactionStatus},
    startup::{
        Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey, Startup,
    },
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until, timeout},
};

use super::{
    METHOD, Shared, ahead,
    batch::Batch,
    cancel::Key,
    command::{self, Command},
    encrypted,
    error::{Error, Result},
    extended::Prepared,
    password,
    portal::{Portal, at_rest, writes},
    settings::Settings,
    transaction::{State, Transaction},
    wire::{End, Frontend, Wire},
};
use crate::{
    access::{Action, Caller, Object},
    call::is_of_operators,
    connection::Connection,
    environment::Stream,
    limits, logged,
    memory::{Consumer, Reservation},
    trace::{self, Entered, Trace},
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
    /// What is inserted between two Syncs without a transaction.
    pub(super) batch: Option<Batch>,
    pub(super) statements: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
    /// For the connection, and what it keeps.
    pub(super) memory: Reservation,
    /// A message of the extended protocol failed: those until the next Sync are passed over.
    pub(super) skips: bool,
    /// Behind the statement in hand its text has others that write, or a commit of its own: these are done also for a client that
    /// is gone.
    pub(super) writes_follow: bool,
    /// When the message in hand had come.
    began: Instant,
    /// The request that messages up to the next Sync are.
    pub(super) trace: Option<Arc<Trace>>,
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
    let tls = shared.state.tls.clone();
    let agreed = timeout(limits::POSTGRES_STARTUP_TIMEOUT, encrypted::agree(stream, tls.as_deref())).await;
    let Ok(Ok((stream, is_encrypted))) = agreed else { return };
    let mut wire = Wire::new(stream, &shared.state);
    let first = timeout(limits::POSTGRES_STARTUP_TIMEOUT, first(&mut wire)).await;
    let started = match first {
        Ok(Ok(First::Cancel(request))) => {
            // Whoever has begun the statement alone knows its secret.
            shared.keys.cancel(request.pid, &request.secret_key.to_bytes());
            return wire.shutdown().await;
        }
        Ok(Ok(First::Startup(_))) if tls.is_some() && !is_encrypted => {
            let message = "this server speaks TLS alone: connect with sslmode=require, or verify-full";
            Err((Error::new("28000", message).fatal().into(), wire))
        }
        Ok(Ok(First::Startup(_))) if permit.is_none() => {
            Err((Error::new("53300", "sorry, too many clients already").fatal().into(), wire))
        }
        Ok(Ok(First::Startup(startup))) => Session::start(shared, wire, address, startup).await,
        Ok(Err(end)) => Err((end, wire)),
        Err(_) => return,
    };
    drop(passing);
    let (end, mut wire, trace) = match started {
        Ok(mut session) => {
            let end = session.run().await;
            (end, session.wire, session.trace)
        }
        Err((end, wire)) => (end, wire, None),
    };
    if let End::Error(error) = end {
        let told = {
            let _entered = Entered::new(trace);
            let why = logged::message(error.status(), error.message());
            tracing::debug!(%address, code = error.code(), error = why, "a connection of PostgreSQL ends");
            error.fatal().response()
        };
        if wire.put(&told).is_ok() {
            let _ = wire.flush().await;
        }
    }
    wire.shutdown().await;
    drop(permit);
}

/// The first message behind those about encryption.
async fn first(wire: &mut Wire) -> std::result::Result<First, End> {
    let context = DecodeContext::default();
    let malformed = |_| Error::protocol("invalid startup packet").fatal();
    let mut bytes = wire.first().await?;
    if CancelRequest::is_cancel_request_packet(&bytes) {
        let request = CancelRequest::decode(&mut bytes, &context).map_err(malformed)?;
        return request.map(First::Cancel).ok_or(End::Gone);
    }
    if (&bytes[4..]).get_u16() != 3 {
        return Err(Error::unsupported("unsupported frontend protocol").fatal().into());
    }
    let startup = Startup::decode(&mut bytes, &context).map_err(malformed)?;
    startup.map(First::Startup).ok_or(End::Gone)
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
                connection: {
                    let connection = Connection::new();
                    connection.is_of(settings.user(), key.number);
                    connection
                },
                key,
                settings,
                transaction: Transaction::default(),
                batch: None,
                statements: HashMap::new(),
                portals: HashMap::new(),
                memory,
                skips: false,
                writes_follow: false,
                began: Instant::now(),
                trace: None,
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
        let caller = Self::authenticate(shared, wire, address, &startup).await?;
        wire.keep_pace(caller.pace());
        let settings = first_settings(&startup, state.default_deadline()).map_err(Error::fatal)?;
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

    /// Who it is, before anything else is said.
    async fn authenticate(
        shared: &Shared,
        wire: &mut Wire,
        address: SocketAddr,
        startup: &Startup,
    ) -> std::result::Result<Caller, End> {
        let Some(user) = startup.parameters.get("user").filter(|user| !user.is_empty()) else {
            let message = "no PostgreSQL user name specified in startup packet";
            return Err(Error::new("28000", message).fatal().into());
        };
        let principal = password::ask(shared, wire, address, user).await?;
        let caller = Caller { principal, access: shared.state.access.clone() };
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
        let (tag, message) = at_rest(self.wire.message(false), || rest(&mut self.portals)).await?;
        if self.caller.check_key().is_err() {
            return Err(Error::new("57P01", "the key of this user is no longer what it was").fatal().into());
        }
        self.began = Instant::now();
        let sql = match &message {
            Ok(Frontend::Query(sql) | Frontend::Parse { sql, .. }) => Some(sql.as_str()),
            Ok(Frontend::Terminate | Frontend::Sync | Frontend::Flush) => None,
            Ok(Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_)) => None,
            // Default: what a prepared statement says was said before.
            _ => Some(""),
        };
        if let (None, Some(sql)) = (&self.trace, sql) {
            self.trace = Some(self.shared.state.traces.stated(sql, METHOD));
        }
        trace::scope(self.trace.clone(), self.answer_to(tag, message)).await
    }

    async fn answer_to(&mut self, tag: u8, message: Result<Frontend>) -> std::result::Result<(), End> {
        let done = match message {
            Ok(Frontend::Terminate) => return Err(End::Gone),
            Ok(Frontend::Query(sql)) => {
                self.skips = false;
                match self.end_batch().await {
                    Ok(()) => self.simple(&sql).await,
                    failed => failed,
                }
            }
            Ok(Frontend::Sync) => {
                self.skips = false;
                self.sync_batch().await?;
                if self.transaction.state == State::None {
                    self.portals.retain(|_, portal| portal.is_held());
                }
                self.ready().await
            }
            // Of a COPY that is over, or has failed.
            Ok(Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_)) => Ok(()),
            Ok(Frontend::Flush) => match self.end_batch().await {
                Ok(()) => at_rest(self.wire.flush(), || rest(&mut self.portals)).await,
                failed => failed,
            },
            _ if self.skips => Ok(()),
            Ok(message) => self.extended(message).await,
            Err(error) => Err(error.into()),
        };
        self.wire.forget();
        match done {
            Err(End::Error(error)) if !error.is_fatal() => {
                self.give_up_batch().await;
                self.failed(&error)?;
                if tag == b'Q' {
                    return self.ready().await;
                }
                self.skips = true;
                at_rest(self.wire.flush(), || rest(&mut self.portals)).await
            }
            done => done,
        }
    }

    /// Waits until a message begins, and meanwhile has rows of portals at hand. Portals of more rows do not outlive their
    /// statement's deadline, and do not keep the server from ending.
    async fn wait(&mut self) -> std::result::Result<(), End> {
        let Self { shared, wire, portals, .. } = self;
        loop {
            let expires = portals.values().filter_map(Portal::deadline).min();
            let reads_ahead = portals.values_mut().any(|portal| portal.reads_ahead().is_some());
            let passed = async {
                match expires {
                    Some(at) => sleep_until(at.min(Instant::now() + limits::UNREAD_TIMEOUT)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shared.closing.cancelled() => return Err(Error::stopping().fatal().into()),
                begins = wire.begins() => return begins,
                () = passed => {
                    if shared.state.is_stopping() {
                        return Err(Error::stopping().fatal().into());
                    }
                    let now = Instant::now();
                    portals.values_mut().for_each(|portal| portal.expire(now));
                }
                () = ahead::read(portals, &shared.state), if reads_ahead => {}
            }
        }
    }

    /// Tells of an error, which fails the transaction.
    pub(super) fn failed(&mut self, error: &Error) -> Result<()> {
        if self.transaction.state == State::Open {
            self.transaction.state = State::Failed;
        }
        let metrics = &self.shared.state.metrics;
        metrics.request(METHOD, error.status(), self.began.elapsed(), 0);
        if let Some(reason) = error.reason() {
            metrics.error(reason);
        }
        if let Some(trace) = &self.trace {
            trace.span().fail(error.reason().unwrap_or(error.code()));
        }
        let (code, peer) = (error.code(), tracing::field::display(&self.caller.principal));
        let why = logged::message(error.status(), error.message());
        match is_of_operators(error.status()) || logged::queries() {
            true => tracing::info!(method = METHOD, code, error = why, peer, "request"),
            false => tracing::debug!(method = METHOD, code, error = why, peer, "request"),
        }
        self.wire.put(&error.response())
    }

    /// The request is over.
    async fn ready(&mut self) -> std::result::Result<(), End> {
        if let Some(trace) = self.trace.take() {
            trace.span().end();
        }
        let status = match self.transaction.state {
            State::None => TransactionStatus::Idle,
            State::Open => TransactionStatus::Transaction,
            State::Failed => TransactionStatus::Error,
        };
        self.wire.put(&ReadyForQuery::new(status))?;
        at_rest(self.wire.flush(), || rest(&mut self.portals)).await
    }

    /// A text of statements.
    async fn simple(&mut self, sql: &str) -> std::result::Result<(), End> {
        self.portals.remove("");
        let parts = split(sql)?;
        if parts.is_empty() {
            self.wire.put(&EmptyQueryResponse::new())?;
        }
        self.begin_text(&parts);
        let done = self.parts(&parts).await;
        self.writes_follow = false;
        if std::mem::take(&mut self.transaction.implicit) {
            let transaction = std::mem::take(&mut self.transaction);
            if done.is_ok() {
                self.commit(&transaction).await?;
            }
        }
        done?;
        if self.transaction.state == State::None {
            self.portals.retain(|_, portal| portal.is_held());
        }
        self.ready().await
    }

    /// Has what is left of a text be all or nothing, without a BEGIN, where several of its statements write.
    fn begin_text(&mut self, left: &[Part]) {
        let writes = |part: &&Part| matches!(command::of(&part.words), Ok(None)) && writes(part);
        self.transaction.implicit =
            self.transaction.state == State::None && left.iter().filter(writes).nth(1).is_some();
    }

    async fn parts(&mut self, parts: &[Part]) -> std::result::Result<(), End> {
        let mut left = parts;
        let last_reads = parts.iter().rev().take_while(|part| !writes(part)).count();
        while let [part, behind @ ..] = left {
            left = behind;
            self.writes_follow = behind.len() > last_reads || self.transaction.implicit;
            match self.command_of(part)? {
                Some(command) => {
                    let ends = matches!(command, Command::Commit | Command::Rollback);
                    self.obey(command, part, &[], &[], true).await?;
                    if ends {
                        self.begin_text(left);
                    }
                }
                None => {
                    let mut portal = Portal::new(Some(part.clone()), Vec::new(), Vec::new(), None);
                    self.begin(&mut portal).await?;
                    self.put_description(&portal)?;
                    self.fetch(&mut portal, None, true).await?;
                }
            }
        }
        Ok(())
    }

    /// The command of a statement that concerns the connection. A transaction that has failed can be ended alone.
    pub(super) fn command_of(&self, part: &Part) -> Result<Option<Command>> {
        let command = command::of(&part.words);
        let ends = matches!(command, Ok(Some(Command::Commit | Command::Rollback | Command::RollbackTo(_))));
        if self.transaction.state == State::Failed && !ends {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Error::new("25P02", message));
        }
        command
    }
}

/// Portals do not count among what runs while the client is waited for, and do not outlive their deadlines.
fn rest(portals: &mut HashMap<String, Portal>) {
    let now = Instant::now();
    for portal in portals.values_mut() {
        portal.leave();
        portal.expire(now);
    }
}

/// The statements of a text.
pub(super) fn split(sql: &str) -> Result<Vec<Part>> {
    script::split(sql).map_err(|error| Error::from(crate::sql::error(error)).of(sql, 0))
}

/// What a client comes with. `options` are those of a command line: `-c name=value`.
fn first_settings(startup: &Startup, timeout: Duration) -> Result<Settings> {
    // Default: the caller was asked for it.
    let user = startup.parameters.get("user").map(String::as_str).unwrap_or_default();
    let mut settings = Settings::new(user, timeout);
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
