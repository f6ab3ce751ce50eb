//! `POST /v1/tables/NAME`: rows for a table, all of them or none.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, Request, State as Shared},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use basalt_core::{schema::Schema, table::Table};
use basalt_proto::v1 as pb;
use basalt_storage::Deletes;
use serde::Serialize;
use tokio::{runtime::Handle, time::Instant};

use super::{
    error::{json, refuse, told},
    expired::Expired,
    options::{Options, content_type},
    read::{Decoder, Start, TYPES, columns, next, room},
    routes::Place,
};
use crate::{
    access::{Action, Caller, Object},
    call::{Arrival, Call},
    coordinator::fresh,
    cpu::StopOnDrop,
    drafts::{Draft, New},
    limits,
    memory::{Consumer, Reservation},
    services::Write,
    state::State,
    status::{RequestError, Result},
    writes::Stream,
};

/// What a load comes to.
#[derive(Debug, Serialize)]
struct Loaded {
    rows: u64,
    version: u64,
    /// The table was made for them.
    created: bool,
    /// Those that are too old to be read already; `None`: the table keeps its rows for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    expired: Option<u64>,
}

pub(super) async fn load(
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let Some(mut call) = request.extensions().get::<Arrival>().cloned().map(Call::of) else {
        return refuse(&RequestError::internal());
    };
    let media_type = match content_type(request.headers(), &TYPES) {
        Ok(media_type) => media_type,
        Err(error) => {
            call.fail(error.clone());
            return told(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
        }
    };
    match all(&state, &mut call, &name, media_type, request).await {
        Ok(loaded) => {
            call.rows = loaded.rows;
            call.done();
            ([(header::CONTENT_TYPE, "application/json")], json(&loaded)).into_response()
        }
        Err(error) => {
            call.fail(error.clone());
            refuse(&error)
        }
    }
}

async fn all(
    state: &Arc<State>,
    call: &mut Call,
    name: &str,
    media_type: &str,
    request: Request,
) -> Result<Loaded> {
    call.may(Action::Write, Object::Table(name))?;
    let options = Options::new(request.uri(), request.headers(), &OPTIONS)?;
    // Rows may be many: without another word they have the longest time.
    let deadline = options.deadline(state, call)?.unwrap_or(call.at() + state.max_deadline);
    let (nulls, replace_by) = (options.list("null"), options.list("replace_by"));
    let stream = state.writes.open(call.connection().id())?;
    let mut held = state.memory.reserve(Consumer::Writes).of(call.caller().account());
    let place = request.extensions().get::<Arc<Place>>().cloned().ok_or_else(RequestError::internal)?;
    let (mut body, mut draft) = (request.into_body(), None);
    let creates = options.is_set("create")?;
    let known = match fresh::table(state, name).await {
        Err(error) if creates && error.reason() == "TABLE_NOT_FOUND" => None,
        known => Some(known.map_err(|error| state.meant(error, name, call.caller()))?),
    };
    let first = place.first(&mut body, limits::HTTP_BODY_BYTES, deadline);
    let (bytes, is_all) = stream.wait(first).await??;
    let mut start = Start { bytes, is_all };
    if known.is_none() && state.catalog.find(name).is_err() {
        // Another load may have made it by then.
        let turn = state.made.turn(name, deadline).await?;
        if state.catalog.find(name).is_err() {
            call.may(Action::Create, Object::Table(name))?;
            while !start.is_enough(media_type) {
                start.is_all = more(&mut body, &place, &stream, &mut start.bytes, deadline).await?;
                // They are looked at, and decoded, one after the other.
                held.set(2 * start.bytes.len() as u64)?;
            }
            stream.take_place()?;
            let columns = read_columns(state, media_type, &mut start, &nulls, &mut held).await?;
            draft = Some(make(state, call.caller(), name, columns).await?.in_turn(turn));
        }
    }
    let table = match (&draft, known) {
        (Some(draft), _) => Arc::clone(draft.table()),
        (None, Some(known)) => known,
        (None, None) => state.catalog.get(name)?,
    };
    let loaded = async {
        call.table = Some(Arc::clone(&table));
        let stop = StopOnDrop::unseen();
        let decoder = Decoder::new(media_type, table.schema())?.with_nulls(nulls);
        let decoder = decoder.with_stop(stop.stop.clone());
        let (caller, table) = (call.caller().clone(), Arc::clone(&table));
        let expired = Expired::of(&table, state.environment.now_micros());
        let mut loading = Loading {
            state,
            caller,
            table,
            replace_by,
            place,
            stream,
            decoder,
            write: None,
            expired,
            held,
            stop,
            deadline,
        };
        loading.body(start, body).await?;
        let Loading { stream, write, expired, .. } = loading;
        let write = write.ok_or_else(|| RequestError::protocol("the body names no columns"))?;
        stream.take_place()?;
        let done = write.commit(stream).await?;
        Ok::<_, RequestError>((done, expired.map(|expired| expired.rows)))
    };
    match (loaded.await, draft) {
        (Ok((done, expired)), None) => {
            Ok(Loaded { rows: done.rows, version: done.version, created: false, expired })
        }
        (Ok((done, expired)), Some(draft)) => {
            draft.publish(Vec::new()).await?;
            Ok(Loaded { rows: done.rows, version: table.snapshot().version(), created: true, expired })
        }
        (Err(error), None) => Err(error),
        (Err(error), Some(draft)) => {
            draft.discard().await;
            Err(error)
        }
    }
}

/// Reads some more of a body; whether it has ended. Who takes long over that may lose the place.
async fn more(
    body: &mut Body,
    place: &Place,
    stream: &Stream,
    bytes: &mut Vec<u8>,
    deadline: Instant,
) -> Result<bool> {
    let enough = bytes.len() + limits::HTTP_PROGRESS_BYTES;
    let read = async {
        while bytes.len() < enough {
            match stream.wait(next(body, deadline)).await?? {
                Some(more) => bytes.extend_from_slice(&more),
                None => return Ok(true),
            }
        }
        Ok(false)
    };
    place.wait(read).await
}

async fn read_columns(
    state: &Arc<State>,
    media_type: &str,
    start: &mut Start,
    nulls: &[String],
    held: &mut Reservation,
) -> Result<Schema> {
    let (media_type, of, nulls) = (media_type.to_owned(), std::mem::take(start), nulls.to_vec());
    let looked = state.cpu.run(move || (room(&media_type, &of), media_type, of)).await;
    let (room, media_type, of) = looked?;
    held.set(of.bytes.len() as u64 + room?)?;
    let read = state.cpu.run(move || (columns(&media_type, &of, &nulls), of)).await;
    let (read, of) = read?;
    *start = of;
    read
}

/// Makes a table that nobody finds before it has the rows.
async fn make(state: &Arc<State>, caller: &Caller, name: &str, schema: Schema) -> Result<Draft> {
    let new = New { name: name.to_owned(), schema, retention: None, deletes: Deletes::default() };
    Draft::make(state, caller, &Handle::current(), new).await
}

/// What a load may say.
const OPTIONS: [&str; 4] = ["deadline_ms", "create", "null", "replace_by"];

/// Rows on their way from a body to their table.
struct Loading<'a> {
    state: &'a Arc<State>,
    caller: Caller,
    table: Arc<Table>,
    /// Rows with the same values in these columns go.
    replace_by: Vec<String>,
    place: Arc<Place>,
    stream: Arc<Stream>,
    decoder: Decoder,
    /// Once the columns are known.
    write: Option<Write>,
    /// Those that are too old, where the table does not keep its rows for good.
    expired: Option<Expired>,
    /// For what the decoder has.
    held: Reservation,
    /// Ends the decoder's work when the load is over.
    stop: StopOnDrop,
    deadline: Instant,
}

impl Loading<'_> {
    /// All rows: what has been read of a body, and the rest of it.
    async fn body(&mut self, start: Start, mut body: Body) -> Result<()> {
        let mut ended = start.is_all;
        if !start.bytes.is_empty() || ended {
            self.stream.take_place()?;
            self.piece(start.bytes, ended).await?;
        }
        while !ended {
            let mut piece = Vec::new();
            while piece.len() < limits::HTTP_PIECE_BYTES && !ended {
                ended = more(&mut body, &self.place, &self.stream, &mut piece, self.deadline).await?;
            }
            self.stream.take_place()?;
            self.piece(piece, ended).await?;
        }
        Ok(())
    }

    /// Makes rows of a piece of the body, and writes them.
    async fn piece(&mut self, piece: Vec<u8>, is_last: bool) -> Result<()> {
        let mut bytes = piece.len() as u64;
        self.held.set(self.decoder.held() + bytes)?;
        let decoded = self.decode(move |decoder| {
            decoder.push(&piece)?;
            if is_last { decoder.close() } else { Ok(()) }
        });
        decoded.await?;
        if is_last {
            // The end of a file takes more when it is decoded, and the file when it is read.
            self.held.set(self.decoder.held() + bytes)?;
            self.decode(Decoder::finish).await?;
        }
        self.held.set(self.decoder.held() + bytes)?;
        if let (None, Some(columns)) = (&self.write, self.decoder.columns()) {
            let (table, replace_by) = (self.table.name().to_owned(), self.replace_by.clone());
            let open = pb::Open { table, columns: columns.clone(), replace_by, ..pb::Open::default() };
            self.write = Some(Write::to(self.state, &self.caller, Arc::clone(&self.table), &open)?);
        }
        while let Some(batch) = self.decode(Decoder::next).await? {
            if Instant::now() >= self.deadline {
                return Err(RequestError::deadline());
            }
            if let (Some(expired), Some(columns)) = (&mut self.expired, self.decoder.columns()) {
                expired.see(columns, &batch);
            }
            let write = self.write.take().ok_or_else(RequestError::internal)?;
            // The rows of a piece are made of its bytes, and counted by them once.
            bytes = bytes.max(batch.get_array_memory_size() as u64);
            self.write = Some(write.take_arrow(std::mem::take(&mut bytes), batch).await?);
        }
        self.held.set(self.decoder.held())
    }

    /// Has the decoder work where such work belongs.
    async fn decode<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Decoder) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::over());
        let worked = self.state.cpu.run(move || (work(&mut decoder), decoder));
        let (done, decoder) = self.stop.until(self.deadline, worked).await??;
        self.decoder = decoder;
        done
    }
}
