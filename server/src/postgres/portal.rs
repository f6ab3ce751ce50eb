//! A statement that runs for a client, and its rows on their way.

use std::{pin::pin, sync::Arc};

use arrow_array::{Array as _, RecordBatch, cast::AsArray as _, types::Int64Type};
use arrow_schema::DataType;
use basalt_core::query::Literal;
use basalt_sql::script::{Part, Word};
use pgwire::messages::{data::DataRow, extendedquery::PortalSuspended, response::CommandComplete};
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::{
    METHOD,
    ahead::{self, Ahead},
    copy::{copies_in, copies_out},
    error::{Error, Result},
    extended::Prepared,
    rows::{self, Column},
    session::{Session, is_word},
    tag::Tag,
    told::columns,
    wire::{End, Wire},
};
use crate::{
    access::{Action, Object, quota::Turn},
    limits, logged,
    memory::{Consumer, Reservation},
    panics::caught_async,
    queries::Committing,
    sql::{Copying, RowsOfStatement, Statement},
    status::RequestError,
};

/// A statement with its parameters.
#[derive(Debug)]
pub(super) struct Portal {
    /// `None`: a text without a statement.
    pub(super) part: Option<Part>,
    parameters: Vec<Literal>,
    /// In which the columns are asked for.
    formats: Vec<i16>,
    /// What it is of, where that was prepared.
    of: Option<Arc<Prepared>>,
    /// The types of its columns, where they were told before.
    told: Option<Vec<DataType>>,
    held: Held,
    run: Run,
}

/// Whether a portal stays when transactions end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Not,
    /// It does if its own one is committed.
    OfBlock,
    /// It does.
    Always,
}

#[derive(Debug)]
enum Run {
    Not,
    Under(Box<Under>),
    /// It is over; the rows of a query were sent.
    Over(Vec<Column>),
    /// It was given up before all of its rows, of these columns, were asked for.
    GivenUp(Vec<Column>, RequestError),
}

/// What runs.
#[derive(Debug)]
pub(super) struct Under {
    pub(super) rows: RowsOfStatement,
    pub(super) columns: Vec<Column>,
    pub(super) cancelled: CancellationToken,
    committing: Committing,
    deadline: Instant,
    /// When it ends, where its client has said so.
    said: Option<Instant>,
    began: Instant,
    /// The rows in hand, and the first of them that is not sent.
    pub(super) batch: Option<(RecordBatch, usize)>,
    /// Those behind them that are here.
    pub(super) ahead: Ahead,
    /// Its rows are passed over: none is sent.
    pub(super) passes: bool,
    pub(super) sent: u64,
    /// It counts among those that its sender has under way.
    pub(super) turn: Option<Turn>,
    /// For rows on their way to the client.
    pub(super) counted: Reservation,
}

impl Portal {
    pub(super) fn new(
        part: Option<Part>,
        parameters: Vec<Literal>,
        formats: Vec<i16>,
        of: Option<Arc<Prepared>>,
    ) -> Self {
        let told = of.as_ref().and_then(|of| of.known());
        Self { part, parameters, formats, of, told, held: Held::Not, run: Run::Not }
    }

    pub(super) fn hold(&mut self, held: Held) {
        self.held = held;
    }

    /// Whether it may stay when its transaction ends.
    pub(super) fn is_held(&self) -> bool {
        self.held != Held::Not
    }

    /// Whether it stays behind a transaction, which was committed or not.
    pub(super) fn outlives(&mut self, committed: bool) -> bool {
        if committed && self.held == Held::OfBlock {
            self.held = Held::Always;
        }
        self.held == Held::Always
    }

    /// The client asks for its columns before it begins: what it was told of another portal holds no longer.
    pub(super) fn is_asked_for(&mut self) {
        if let Some(of) = &self.of {
            self.told = of.told();
        }
    }

    /// The client knows its columns, and may ask for those of none that follow.
    pub(super) fn is_told(&self) {
        if let Some(of) = &self.of
            && self.gives_rows()
        {
            of.shows(self.columns());
        }
    }

    /// When what it holds is given up; `None`: it holds nothing but rows.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.run {
            Run::Under(under) if !under.rows.is_complete() => Some(under.deadline),
            _ => None,
        }
    }

    /// Gives it up if its time is over, or others have its place.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_late = self.deadline().is_some_and(|deadline| deadline <= now);
        if let Run::Under(under) = &mut self.run
            && let Some(why) = is_late.then(RequestError::deadline).or_else(|| under.rows.given_up())
        {
            self.run = Run::GivenUp(std::mem::take(&mut under.columns), why);
        }
    }

    /// What runs, if rows of it are to be taken before they are asked for.
    pub(super) fn reads_ahead(&mut self) -> Option<&mut Under> {
        match &mut self.run {
            Run::Under(under) if under.reads_ahead() => Some(under),
            _ => None,
        }
    }

    /// Nobody asks for its rows for now: its client asks for other things.
    pub(super) fn leave(&mut self) {
        if let Run::Under(under) = &mut self.run {
            under.rows.rest();
        }
    }

    pub(super) fn is_begun(&self) -> bool {
        !matches!(self.run, Run::Not)
    }

    /// It goes on: a request to cancel is one for it from now on, and those that came before were for others.
    pub(super) fn goes_on(&mut self, cancelled: CancellationToken) {
        if let Run::Under(under) = &mut self.run {
            under.cancelled = cancelled;
        }
    }

    /// Whether its rows are passed over from now on.
    pub(super) fn set_passing(&mut self, passes: bool) {
        if let Run::Under(under) = &mut self.run {
            under.passes = passes;
        }
    }

    /// Bytes that it takes beside what runs.
    pub(super) fn bytes(&self) -> u64 {
        let parameters = self.parameters.iter().map(|parameter| match parameter {
            Literal::Text(text) => text.len() + 64,
            _ => 64,
        });
        let text = self.part.as_ref().map_or(0, |part| part.sql.len());
        (text * 4 + parameters.sum::<usize>() + 1024) as u64
    }

    pub(super) fn parameters(&self) -> &[Literal] {
        &self.parameters
    }

    /// In which its columns are asked for.
    pub(super) fn formats(&self) -> &[i16] {
        &self.formats
    }

    pub(super) fn columns(&self) -> &[Column] {
        match &self.run {
            Run::Under(under) => &under.columns,
            Run::Over(columns) | Run::GivenUp(columns, _) => columns,
            Run::Not => &[],
        }
    }

    /// Whether what runs has rows that were asked for.
    fn gives_rows(&self) -> bool {
        match &self.run {
            Run::Under(under) => under.rows.command().gives_rows(),
            Run::Over(columns) | Run::GivenUp(columns, _) => !columns.is_empty(),
            Run::Not => false,
        }
    }

    /// Asks for other formats from now on: one for all, or one for each.
    pub(super) fn set_formats(&mut self, formats: &[i16]) -> Result<()> {
        if let Run::Under(under) = &mut self.run {
            under.columns = columns(under.rows.arrow(), formats, self.told.as_deref())?;
        }
        Ok(())
    }
}

impl Under {
    /// Its next rows, and what has nobody wait for them. Behind it, what writes may follow.
    pub(super) fn next<'a>(
        &'a mut self,
        closing: &'a CancellationToken,
        writes_follow: bool,
    ) -> (Ends<'a>, impl Future<Output = std::result::Result<Option<RecordBatch>, RequestError>> + 'a) {
        let Self { rows, ahead, cancelled, committing, said, .. } = self;
        let gives_rows = rows.command().gives_rows();
        let reads = gives_rows && !writes_follow;
        // Rows that are always ready have no other end. Those that are all here are not late.
        let is_over = said.is_some_and(|until| Instant::now() >= until);
        let is_late = is_over && gives_rows && !rows.is_complete();
        let next = async move {
            match ahead.pop() {
                Some(batch) => Ok(Some(batch)),
                None if is_late => Err(RequestError::deadline()),
                None => rows.next().await,
            }
        };
        (Ends { cancelled, closing, committing, reads }, next)
    }
}

/// Whether a statement only reads, by its first word, and by the one behind its WITH.
pub(super) fn reads(part: &Part) -> bool {
    const READ: [&str; 10] =
        ["select", "with", "values", "from", "table", "explain", "show", "describe", "desc", "summarize"];
    let first = part.words.iter().find(|word| !matches!(word, Word::Sign(sign) if sign == "("));
    is_word(first, &READ) && part.behind_with().is_none()
}

/// Whether a statement over tables may write to them.
pub(super) fn writes(part: &Part) -> bool {
    !reads(part) && !copies_out(part)
}

/// What has nobody wait for a statement any longer.
pub(super) struct Ends<'a> {
    pub(super) cancelled: &'a CancellationToken,
    pub(super) closing: &'a CancellationToken,
    /// Whether it commits, which is waited for all the same.
    pub(super) committing: &'a Committing,
    /// Nothing comes of it but an answer, and nothing else is to be done behind it: it ends with its client also where that has
    /// said goodbye before it went.
    pub(super) reads: bool,
}

impl Ends<'_> {
    /// What becomes of work that has come to one of these.
    pub(super) async fn outcome<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, RequestError>>,
        over: Error,
    ) -> std::result::Result<T, End> {
        if self.committing.give_up() {
            return Err(over.into());
        }
        let outcome = Committing::outcome(work, over.message()).await.and_then(|done| done);
        Ok(outcome.map_err(Error::from)?)
    }
}

/// Waits for work, unless the client cancels it or goes, or the server ends.
pub(super) async fn guarded<T>(
    wire: &mut Wire,
    ends: Ends<'_>,
    work: impl Future<Output = std::result::Result<T, RequestError>>,
) -> std::result::Result<T, End> {
    let mut work = pin!(caught_async(work));
    let gone = async {
        match ends.reads {
            true => wire.closed().await,
            false => wire.gone().await,
        }
    };
    let over = tokio::select! {
        biased;
        () = ends.cancelled.cancelled() => Error::cancelled(),
        done = &mut work => return Ok(done.map_err(Error::from)?),
        () = ends.closing.cancelled() => Error::stopping().fatal(),
        () = gone => return Err(End::Gone),
    };
    ends.outcome(work, over).await
}

/// Does what may wait for the client; where it does, `rests` has others go on meanwhile.
pub(super) async fn at_rest<T>(work: impl Future<Output = T>, rests: impl FnOnce()) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = std::future::ready(()) => rests(),
    }
    work.await
}

impl Session {
    /// Begins to run a portal.
    pub(super) async fn begin(&mut self, portal: &mut Portal) -> std::result::Result<(), End> {
        let Some(part) = portal.part.clone() else { return Ok(()) };
        self.may_begin(&part)?;
        self.portals.values_mut().for_each(Portal::leave);
        // It counts among those of its sender while the client sends its rows.
        let turn = self.caller.turn(Object::Tables).map_err(Error::from)?;
        let (sent, copying) = match (copies_in(&part), copies_out(&part)) {
            (true, _) => self.ask_for_rows(&part).await.map(|(rows, copying)| (Some(rows), copying))?,
            (false, true) => (None, Copying::Out),
            (false, false) => (None, Copying::Not),
        };
        let writes_follow = self.writes_follow;
        let Self { shared, wire, caller, connection, key, settings, transaction, portals, .. } = self;
        let state = &shared.state;
        let began = Instant::now();
        // Many rows take their time, and a client that copies them has not said how long.
        let unsaid = (!matches!(copying, Copying::Not)).then_some(Duration::MAX);
        let timeout = settings.timeout();
        let deadline = state.deadline_within(timeout.or(unsaid));
        let (cancelled, committing) = (key.begin(), Committing::default());
        let statement = Statement {
            sql: part.sql.clone(),
            parameters: portal.parameters.clone(),
            caller,
            method: METHOD,
            connection,
            deadline,
            running: Some(state.running.token()),
        };
        let begun = async {
            let transaction = transaction.is_open().then(|| Arc::clone(&transaction.writes));
            statement.begin_copying(state, transaction, copying, committing.clone()).await
        };
        let begun = ahead::read_beside(portals, state, begun);
        let (closing, reads) = (&shared.closing, reads(&part) && !writes_follow);
        let ends = Ends { cancelled: &cancelled, closing, committing: &committing, reads };
        let running = match sent {
            Some(rows) => rows.guarded(wire, ends, begun).await,
            None => guarded(wire, ends, begun).await,
        };
        let running = running.map_err(|end| placed(end, &part))?;
        let rows = running.rows(state);
        let columns = columns(rows.arrow(), &portal.formats, portal.told.as_deref())?;
        portal.run = Run::Under(Box::new(Under {
            rows,
            columns,
            cancelled,
            committing,
            deadline,
            said: timeout.map(|_| deadline),
            began,
            batch: None,
            ahead: Ahead::default(),
            passes: false,
            sent: 0,
            turn,
            counted: state.memory.reserve(Consumer::Answers),
        }));
        Ok(())
    }

    /// Fails where a statement may not begin now; counts it among those of its transaction that write.
    fn may_begin(&mut self, part: &Part) -> Result<()> {
        let Self { shared, caller, settings, transaction, portals, .. } = self;
        if shared.state.is_stopping() {
            return Err(Error::stopping().fatal());
        }
        caller.authorise(Action::Read, Object::Tables).map_err(Error::from)?;
        if portals.values().filter(|portal| portal.deadline().is_some()).count() >= limits::POSTGRES_OPEN {
            let message =
                format!("more than {} statements whose rows are not all read", limits::POSTGRES_OPEN);
            return Err(Error::new("53400", message));
        }
        if writes(part) {
            if settings.get(transaction.read_only()).is_ok_and(|(_, value)| value == "on") {
                return Err(Error::new("25006", "cannot write in a read-only transaction"));
            }
            transaction.written += usize::from(transaction.is_open());
        }
        Ok(())
    }

    /// Says which columns follow, where rows do.
    pub(super) fn put_description(&mut self, portal: &Portal) -> Result<()> {
        if portal.gives_rows() { self.wire.put(&rows::description(portal.columns())) } else { Ok(()) }
    }

    /// Sends rows of a portal that runs, so many at most; `ends` says whether that there are no more, or none for now, is
    /// told as well. Returns how many were sent.
    pub(super) async fn fetch(
        &mut self,
        portal: &mut Portal,
        most: Option<u64>,
        ends: bool,
    ) -> std::result::Result<u64, End> {
        self.portals.values_mut().for_each(Portal::leave);
        let part = portal.part.clone();
        let tag = Tag::of(part.as_ref());
        if let Run::GivenUp(_, why) = &portal.run {
            // What was sent is not all.
            return Err(Error::from(why.clone()).into());
        }
        let Run::Under(under) = &mut portal.run else {
            if ends {
                self.wire.put(&CommandComplete::new(tag.with(0)))?;
            }
            return Ok(0);
        };
        let outcome = match (under.rows.copied().cloned(), under.rows.command().gives_rows()) {
            (Some(form), _) => self.copy_out(under, &form).await.map(|rows| (0, true, rows)),
            (None, true) => self.rows(under, most).await.map(|(sent, is_over)| (sent, is_over, sent)),
            (None, false) => self.written(under).await.map(|rows| (0, true, rows)),
        };
        let elapsed = under.began.elapsed();
        let selected = under.rows.statistics().rows_selected;
        let versions = under.rows.versions();
        let tables: Vec<_> = versions.iter().map(|version| version.table.as_str()).collect();
        let table = (!tables.is_empty()).then(|| tables.join(","));
        let (rows, elapsed_us) = (under.sent, elapsed.as_micros());
        let elapsed_us = u64::try_from(elapsed_us).unwrap_or(u64::MAX);
        let peer = tracing::field::display(&self.caller.principal);
        match outcome {
            Ok((sent, true, counted)) => {
                self.shared.state.metrics.request(METHOD, Code::Ok, elapsed, rows);
                let span = self.trace.as_ref().map(|trace| trace.span());
                if let Some(span) = span {
                    span.text("basalt.table", || tables.join(","));
                    span.count("basalt.rows", rows);
                    span.count("basalt.rows_selected", selected);
                }
                macro_rules! tell {
                    ($level:ident) => {
                        tracing::$level!(
                            method = METHOD,
                            table,
                            rows,
                            selected,
                            elapsed_us,
                            code = "Ok",
                            peer,
                            "request"
                        )
                    };
                }
                if logged::queries() {
                    tell!(info)
                } else {
                    tell!(debug)
                }
                let columns = match portal.gives_rows() {
                    true => portal.columns().to_vec(),
                    false => Vec::new(),
                };
                portal.run = Run::Over(columns);
                if ends {
                    self.wire.put(&CommandComplete::new(tag.with(counted)))?;
                }
                Ok(sent)
            }
            Ok((sent, false, _)) => {
                under.is_left(&self.shared.state);
                if ends {
                    self.wire.put(&PortalSuspended::new())?;
                }
                Ok(sent)
            }
            Err(end) => {
                let end = part.map_or(End::Gone, |part| placed(end, &part));
                portal.run = Run::Over(Vec::new());
                Err(end)
            }
        }
    }

    /// Runs what gives no rows to its end; how many were written.
    async fn written(&mut self, under: &mut Under) -> std::result::Result<u64, End> {
        let Self { shared, wire, writes_follow, .. } = self;
        let mut written = 0;
        loop {
            let (ends, next) = under.next(&shared.closing, *writes_follow);
            let Some(batch) = guarded(wire, ends, next).await? else { break };
            let counts = batch.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>());
            let counts = counts.filter(|counts| counts.null_count() == 0);
            written += counts.map_or(0, |counts| counts.values().iter().sum::<i64>());
        }
        // Default: there are none below 0.
        Ok(u64::try_from(written).unwrap_or_default())
    }

    /// Keeps a portal under a name.
    pub(super) fn keep(&mut self, name: String, portal: Portal) -> Result<()> {
        if self.portals.len() >= limits::POSTGRES_PORTALS && !self.portals.contains_key(&name) {
            let message = format!("more than {} portals", limits::POSTGRES_PORTALS);
            return Err(Error::new("53400", message));
        }
        self.portals.insert(name.clone(), portal);
        self.count().inspect_err(|_| drop(self.portals.remove(&name)))
    }

    /// Counts what the connection keeps.
    pub(super) fn count(&mut self) -> Result<()> {
        let portals: u64 = self.portals.values().map(Portal::bytes).sum();
        let statements: u64 = self.statements.values().map(|statement| statement.bytes()).sum();
        let kept = portals + statements;
        if kept > limits::POSTGRES_KEPT_BYTES {
            let message =
                format!("statements and portals of more than {} bytes", limits::POSTGRES_KEPT_BYTES);
            return Err(Error::new("53400", message));
        }
        self.memory.set(limits::CONNECTION_BYTES + kept).map_err(Error::from)
    }

    /// An answer of texts.
    pub(super) fn answer(
        &mut self,
        names: &[&str],
        texts: &[Vec<String>],
        formats: &[i16],
        describes: bool,
    ) -> Result<()> {
        if describes {
            self.wire.put(&rows::description(&rows::texts(names, formats)))?;
        }
        for row in texts {
            let mut data = bytes::BytesMut::new();
            for text in row {
                bytes::BufMut::put_u32(&mut data, u32::try_from(text.len()).unwrap_or_default());
                data.extend_from_slice(text.as_bytes());
            }
            let count = i16::try_from(row.len()).map_err(|_| Error::limit("too many columns"))?;
            self.wire.put(&DataRow::new(data, count))?;
        }
        Ok(())
    }
}

/// The error at its place in the text that the client has sent.
pub(super) fn placed(end: End, part: &Part) -> End {
    match end {
        End::Error(error) => End::Error(error.of(&part.sql, part.before)),
        End::Gone => End::Gone,
    }
}
