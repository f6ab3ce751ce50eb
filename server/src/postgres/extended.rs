//! The extended protocol: statements that are prepared, described, bound to parameters, and run in pieces.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_schema::DataType;
use basalt_core::{query::Literal, schema};
use basalt_sql::{Description, TextOf, script::Part, system::postgres_type};
use pgwire::messages::{
    data::{NoData, ParameterDescription},
    extendedquery::{BindComplete, CloseComplete, ParseComplete},
    response::EmptyQueryResponse,
};

use super::{
    METHOD,
    command::Command,
    error::{Error, Result},
    portal::{Ends, Portal, guarded, placed, reads},
    rows::{self, Column},
    session::{Session, split},
    transaction::{declared, no_cursor},
    types,
    wire::{Bind, End, Frontend, Target},
};
use crate::{
    access::{Action, Object},
    limits,
    queries::Committing,
    sql::Statement,
};

/// The type that parameters of bytes are cast to: what is given for them is a text, which says other things beside bytes.
const OF_BYTES: &str = "BYTEA";
/// That of parameters of intervals.
const OF_INTERVALS: &str = "INTERVAL";

/// A statement that was prepared.
#[derive(Debug)]
pub(super) struct Prepared {
    /// `None`: a text without a statement.
    part: Option<Part>,
    /// The types of parameters that the client has named; 0: it has not.
    types: Vec<u32>,
    /// Where it was asked for.
    description: OnceLock<Description>,
    /// The types of its columns, where the client has asked for those of the statement: they hold for all that it runs.
    told: OnceLock<Vec<DataType>>,
    /// Those of the last portal of which it has asked: drivers ask once, and hold them for true of all portals that follow.
    shown: Mutex<Option<Vec<DataType>>>,
}

impl Prepared {
    /// Bytes that it takes, about.
    pub(super) fn bytes(&self) -> u64 {
        let text = self.part.as_ref().map_or(0, |part| part.sql.len());
        (text * 4 + self.types.len() * 4 + 1024) as u64
    }

    /// How many parameters it takes, of which so many have a place in its plan: what is looked at nowhere is given all the same.
    fn count(&self, planned: usize) -> usize {
        let written = self.part.as_ref().map_or(0, Part::parameters);
        planned.max(self.types.len()).max(written)
    }

    /// The types of columns that the client was told of the statement itself.
    pub(super) fn told(&self) -> Option<Vec<DataType>> {
        self.told.get().cloned()
    }

    /// The types of columns that the client holds for true.
    pub(super) fn known(&self) -> Option<Vec<DataType>> {
        self.told().or_else(|| self.shown().clone())
    }

    /// The client is told the columns of a portal.
    pub(super) fn shows(&self, columns: &[Column]) {
        *self.shown() = Some(data_types(columns));
    }

    fn shown(&self) -> MutexGuard<'_, Option<Vec<DataType>>> {
        // Default: what was written there is whole.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The type of a parameter that the client has named.
    fn named(&self, at: usize) -> Option<u32> {
        self.types.get(at).copied().filter(|oid| *oid != 0)
    }

    /// The type of a parameter.
    fn parameter(&self, at: usize) -> Option<u32> {
        let described = || {
            let description = self.description.get()?;
            let taken = || Some(postgres_type(&description.parameters.get(at)?.to_arrow()).oid);
            match self.text_of(at) {
                Some(TextOf::List(_)) if self.is_of_oids(at) => Some(types::OIDS),
                text => text.map(types::told).or_else(taken),
            }
        };
        self.named(at).or_else(described)
    }

    /// Whether a parameter is cast to a list of numbers of types, as asyncpg does where it asks what types of lists are: any other list
    /// of numbers, also in what is answered, it would ask for first.
    fn is_of_oids(&self, at: usize) -> bool {
        let cast = format!("${}::oid[]", at + 1);
        self.part.as_ref().is_some_and(|part| part.sql.contains(&cast))
    }

    /// What the text of a parameter says, where the statement was asked for it.
    fn text_of(&self, at: usize) -> Option<TextOf> {
        self.description.get().and_then(|description| description.texts.get(at).copied().flatten())
    }

    /// Whether the text of a parameter says this, which the client does not say.
    fn is_unsaid(&self, at: usize, of: TextOf) -> bool {
        self.text_of(at) == Some(of) && self.named(at).is_none()
    }

    /// The statement as it runs, where parameters of bytes and intervals are known as such.
    fn cast(&self) -> Result<Option<Part>> {
        let count = self.description.get().map_or(0, |description| description.texts.len());
        let Some(part) = &self.part else { return Ok(None) };
        let mut part = part.clone();
        for (of, data_type) in [(TextOf::Bytes, OF_BYTES), (TextOf::Interval, OF_INTERVALS)] {
            if (0..count).any(|at| self.is_unsaid(at, of)) {
                let cast = part.casting(data_type, |at| self.is_unsaid(at, of));
                part = cast.map_err(|error| Error::from(crate::sql::error(error)))?;
            }
        }
        Ok(Some(part))
    }

    /// The value of a parameter; `format` says whether it comes as a text, or in binary form.
    fn value(&self, at: usize, format: i16, bytes: &bytes::Bytes) -> Result<Literal> {
        // Default: text.
        let value = types::parameter(self.parameter(at).unwrap_or(types::TEXT), format, bytes);
        match value {
            // A text that is not in hexadecimal digits says bytes as it does in SQL.
            Err(_) if format == 0 && self.is_unsaid(at, TextOf::Bytes) => {
                types::parameter(types::TEXT, format, bytes)
            }
            value => value,
        }
    }
}

impl Session {
    /// Answers a message of the extended protocol.
    pub(super) async fn extended(&mut self, message: Frontend) -> std::result::Result<(), End> {
        match message {
            Frontend::Parse { name, sql, types } => self.prepare(name, &sql, types).await?,
            Frontend::Bind(bind) => self.bind(bind).await?,
            Frontend::Describe { target: Target::Statement, name } => self.describe(&name).await?,
            Frontend::Describe { target: Target::Portal, name } => self.describe_portal(&name).await?,
            Frontend::Execute { portal, rows } => self.execute(portal, rows).await?,
            Frontend::Close { target, name } => {
                match target {
                    Target::Statement => drop(self.statements.remove(&name)),
                    Target::Portal => drop(self.portals.remove(&name)),
                }
                self.count()?;
                self.wire.put(&CloseComplete::new())?;
            }
            // The others were answered before.
            _ => {}
        }
        if self.wire.is_full() {
            self.end_batch().await?;
        }
        self.wire.flush_if_full().await
    }

    async fn prepare(&mut self, name: String, sql: &str, types: Vec<u32>) -> std::result::Result<(), End> {
        let mut parts = split(sql)?;
        if parts.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Error::new("42601", message).into());
        }
        self.keep_prepared(name.clone(), parts.pop(), types)?;
        // Who waits for the answer counts on it. Others send what follows, and the statement is planned once, with its parameters.
        if self.wire.syncs()
            && let Err(end) = self.check(&name).await
        {
            self.statements.remove(&name);
            self.count()?;
            return Err(end);
        }
        self.wire.put(&ParseComplete::new())?;
        Ok(())
    }

    /// Fails where a statement is wrong whatever its parameters are.
    async fn check(&mut self, name: &str) -> std::result::Result<(), End> {
        let prepared = self.prepared(name)?;
        let Err(end) = self.description(&prepared).await else { return Ok(()) };
        let has_parameters = prepared.count(0) > 0;
        let is_open = matches!(&end, End::Error(error) if has_parameters && may_be_of_parameters(error));
        if is_open { Ok(()) } else { Err(end) }
    }

    /// Keeps a statement under a name.
    pub(super) fn keep_prepared(&mut self, name: String, part: Option<Part>, types: Vec<u32>) -> Result<()> {
        if let Some(part) = &part {
            self.command_of(part)?;
        }
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(Error::new("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        if self.statements.len() >= limits::POSTGRES_STATEMENTS && !self.statements.contains_key(&name) {
            let message = format!("more than {} prepared statements", limits::POSTGRES_STATEMENTS);
            return Err(Error::new("53400", message));
        }
        let mut part = part;
        for (oid, data_type) in [(types::BYTEA, OF_BYTES), (types::SPAN, OF_INTERVALS)] {
            if let Some(given) = &part
                && types.contains(&oid)
            {
                let cast = given.casting(data_type, |at| types.get(at) == Some(&oid));
                part = Some(cast.map_err(|error| Error::from(crate::sql::error(error)))?);
            }
        }
        let (description, told, shown) = (OnceLock::new(), OnceLock::new(), Mutex::new(None));
        let prepared = Prepared { part, types, description, told, shown };
        self.statements.insert(name.clone(), Arc::new(prepared));
        self.count().inspect_err(|_| drop(self.statements.remove(&name)))
    }

    fn prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        let prepared = self.statements.get(name).map(Arc::clone);
        prepared.ok_or_else(|| Error::new("26000", format!("prepared statement \"{name}\" does not exist")))
    }

    /// What a statement, or the query of a cursor, takes and gives; `None`: it concerns the connection alone.
    async fn description<'a>(
        &mut self,
        prepared: &'a Prepared,
    ) -> std::result::Result<Option<&'a Description>, End> {
        let Some(part) = &prepared.part else { return Ok(None) };
        let of_cursor = match self.command_of(part)? {
            None => None,
            Some(Command::Declare(_, at, _)) => Some(declared(part, at)?),
            Some(_) => return Ok(None),
        };
        // Default: the statement itself.
        let part = of_cursor.as_ref().unwrap_or(part);
        if let Some(description) = prepared.description.get() {
            return Ok(Some(description));
        }
        let types = prepared.types.iter().map(|oid| types::given(*oid)).collect();
        let described = self.describe_statement(part, types).await?;
        Ok(Some(prepared.description.get_or_init(|| described)))
    }

    /// What a statement over tables takes and gives, where the client says of which types its parameters are.
    pub(super) async fn describe_statement(
        &mut self,
        part: &Part,
        types: Vec<Option<schema::DataType>>,
    ) -> std::result::Result<Description, End> {
        self.portals.values_mut().for_each(Portal::leave);
        let Self { shared, wire, caller, connection, key, settings, transaction, .. } = self;
        let state = &shared.state;
        let transaction = transaction.is_open().then(|| Arc::clone(&transaction.writes));
        caller.authorise(Action::Read, Object::Tables).map_err(Error::from)?;
        let (cancelled, deadline) = (key.begin(), state.deadline_within(settings.timeout()));
        let (sql, running) = (part.sql.clone(), Some(state.running.token()));
        let statement =
            Statement { sql, parameters: Vec::new(), caller, method: METHOD, connection, deadline, running };
        // It writes nothing.
        let committing = Committing::default();
        let closing = &shared.closing;
        // What stands behind it may write.
        let ends = Ends { cancelled: &cancelled, closing, committing: &committing, reads: false };
        let described = guarded(wire, ends, statement.describe(state, transaction, types)).await;
        described.map_err(|end| placed(end, part))
    }

    async fn describe(&mut self, name: &str) -> std::result::Result<(), End> {
        let prepared = self.prepared(name)?;
        let Some(description) = self.description(&prepared).await? else {
            self.wire.put(&ParameterDescription::new(Vec::new()))?;
            return Ok(self.describe_command(prepared.part.as_ref(), &[])?);
        };
        let count = prepared.count(description.parameters.len());
        // Default: text, of one that the statement does not name.
        let types = (0..count).map(|at| prepared.parameter(at).unwrap_or(types::TEXT)).collect();
        self.wire.put(&ParameterDescription::new(types))?;
        match prepared.part.as_ref().is_some_and(reads) {
            true => {
                let mut columns = rows::columns(&description.arrow, &[])?;
                if (0..count).any(|at| prepared.is_of_oids(at)) {
                    columns.iter_mut().for_each(Column::tell_oids);
                }
                prepared.told.get_or_init(|| data_types(&columns));
                self.wire.put(&rows::description(&columns))?;
            }
            false => self.wire.put(&NoData::new())?,
        }
        Ok(())
    }

    /// The columns of what concerns the connection alone.
    fn describe_command(&mut self, part: Option<&Part>, formats: &[i16]) -> Result<()> {
        let command = part.map(|part| self.command_of(part)).transpose()?.flatten();
        let names: Vec<&str> = match &command {
            Some(Command::Show(name)) => vec![self.settings.get(name)?.0],
            Some(Command::ShowAll) => vec!["name", "setting"],
            Some(Command::Fetch(_, cursor)) => {
                let portal = self.portals.get(cursor).ok_or_else(|| no_cursor(cursor))?;
                let mut columns = portal.columns().to_vec();
                for (at, column) in columns.iter_mut().enumerate() {
                    column.format = rows::format_of(formats, at);
                }
                return self.wire.put(&rows::description(&columns));
            }
            _ => return self.wire.put(&NoData::new()),
        };
        self.wire.put(&rows::description(&rows::texts(&names, formats)))
    }

    async fn bind(&mut self, bind: Bind) -> std::result::Result<(), End> {
        let prepared = self.prepared(&bind.statement)?;
        let Bind { portal: name, formats, parameters, results, .. } = bind;
        if formats.len() > 1 && formats.len() != parameters.len() {
            let message = format!("{} formats for {} parameters", formats.len(), parameters.len());
            return Err(Error::protocol(message).into());
        }
        let command = prepared.part.as_ref().map(|part| self.command_of(part)).transpose()?.flatten();
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(no_second(&name).into());
        }
        // EXECUTE is the statement that it names.
        if let Some(Command::Execute(of, given)) = command {
            let portal = self.executed(&of, given, results, Some(prepared)).await?;
            self.keep(name, portal)?;
            self.wire.put(&BindComplete::new())?;
            return Ok(());
        }
        let parameters = self.values(&prepared, &bind.statement, &formats, parameters).await?;
        let portal = Portal::new(prepared.cast()?, parameters, results, Some(prepared));
        self.keep(name, portal)?;
        self.wire.put(&BindComplete::new())?;
        Ok(())
    }

    /// The statement that EXECUTE names, with the texts of its parameters. EXECUTE itself may be `of` what was prepared.
    pub(super) async fn executed(
        &mut self,
        name: &str,
        given: Vec<Option<String>>,
        results: Vec<i16>,
        of: Option<Arc<Prepared>>,
    ) -> std::result::Result<Portal, End> {
        let prepared = self.prepared(name)?;
        if let Some(part) = &prepared.part
            && self.command_of(part)?.is_some()
        {
            return Err(Error::unsupported("EXECUTE of what concerns the connection is not supported").into());
        }
        let given = given.into_iter().map(|text| text.map(bytes::Bytes::from)).collect();
        let parameters = self.values(&prepared, name, &[], given).await?;
        Ok(Portal::new(prepared.cast()?, parameters, results, of))
    }

    /// The values of the parameters of a statement of this name.
    async fn values(
        &mut self,
        prepared: &Prepared,
        statement: &str,
        formats: &[i16],
        parameters: Vec<Option<bytes::Bytes>>,
    ) -> std::result::Result<Vec<Literal>, End> {
        let open =
            |(at, value): (usize, &Option<bytes::Bytes>)| value.is_some() && prepared.parameter(at).is_none();
        if parameters.iter().enumerate().any(open) {
            // What the client says nothing of is of the type that the statement takes.
            self.description(prepared).await?;
        }
        let wanted = prepared.description.get();
        let wanted = wanted.map(|description| prepared.count(description.parameters.len()));
        if let Some(wanted) = wanted.filter(|wanted| *wanted != parameters.len()) {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                parameters.len(),
                statement,
                wanted
            );
            return Err(Error::protocol(message).into());
        }
        let literal = |(at, value): (usize, Option<bytes::Bytes>)| match value {
            None => Ok(Literal::Null),
            Some(bytes) => prepared.value(at, rows::format_of(formats, at), &bytes),
        };
        Ok(parameters.into_iter().enumerate().map(literal).collect::<Result<Vec<_>>>()?)
    }

    /// Whether a portal is of a query over tables.
    pub(super) fn is_query(&self, portal: &Portal) -> Result<bool> {
        match &portal.part {
            Some(part) => Ok(self.command_of(part)?.is_none() && reads(part)),
            None => Ok(false),
        }
    }

    /// Begins what only reads, so that its columns are known as they will be.
    async fn describe_portal(&mut self, name: &str) -> std::result::Result<(), End> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        let described = self.describe_open(&mut portal).await;
        self.portals.insert(name.to_owned(), portal);
        described
    }

    async fn describe_open(&mut self, portal: &mut Portal) -> std::result::Result<(), End> {
        if !self.is_query(portal)? {
            return Ok(self.describe_command(portal.part.as_ref(), portal.formats())?);
        }
        self.end_batch().await?;
        if !portal.is_begun() {
            portal.is_asked_for();
            self.begin(portal).await?;
        }
        self.put_description(portal)?;
        portal.is_told();
        Ok(())
    }

    async fn execute(&mut self, name: String, rows: i32) -> std::result::Result<(), End> {
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_cursor(&name))?;
        let Some(part) = &portal.part else {
            self.wire.put(&EmptyQueryResponse::new())?;
            self.portals.insert(name, portal);
            return Ok(());
        };
        let part = part.clone();
        if let Some(command) = self.command_of(&part)? {
            self.end_batch().await?;
            let formats = portal.formats().to_vec();
            let parameters = portal.parameters().to_vec();
            self.portals.insert(name, portal);
            return self.obey(command, &part, &parameters, &formats, false).await;
        }
        self.join_batch(&part).await?;
        match portal.is_begun() {
            true => portal.goes_on(self.key.begin()),
            false => self.begin(&mut portal).await?,
        }
        let most = u64::try_from(rows).ok().filter(|rows| *rows > 0);
        self.fetch(&mut portal, most, true).await?;
        self.portals.insert(name, portal);
        Ok(())
    }
}

/// Whether a statement that cannot be described may have a plan where its parameters have values.
fn may_be_of_parameters(error: &Error) -> bool {
    let code = error.code();
    !error.is_fatal() && (["0A000", "42601", "42804", "42883"].contains(&code) || code.starts_with("22"))
}

fn data_types(columns: &[Column]) -> Vec<DataType> {
    columns.iter().map(|column| column.data_type.clone()).collect()
}

fn no_second(name: &str) -> Error {
    Error::new("42P03", format!("cursor \"{name}\" already exists"))
}
