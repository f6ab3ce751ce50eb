//! `POST /v1/tables/NAME`: rows for a table, all of them or none.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, Request, State as Shared},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use basalt_proto::v1 as pb;
use serde::Serialize;
use tokio::time::Instant;

use super::{
    error::{json, refuse, told},
    options::{Options, content_type},
    read::{Decoder, TYPES, next},
};
use crate::{
    access::{Action, Caller, Object},
    call::{Arrival, Call},
    coordinator::fresh,
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
    let options = Options::new(request.uri(), request.headers(), &["deadline_ms"])?;
    // Rows may be many: without another word they have the longest time.
    let deadline = options.deadline(state, call)?.unwrap_or(call.at() + state.max_deadline);
    fresh::table(state, name).await.map_err(|error| state.meant(error, name, call.caller()))?;
    let table = state.catalog.get(name)?;
    call.table = Some(Arc::clone(&table));
    let stream = state.writes.open(call.connection().id())?;
    let decoder = Decoder::new(media_type, table.schema())?;
    let held = state.memory.reserve(Consumer::Writes).of(call.caller().account());
    let mut loading =
        Loading { state, caller: call.caller().clone(), name, stream, decoder, write: None, held, deadline };
    loading.body(request.into_body()).await?;
    let Loading { stream, write, .. } = loading;
    let write = write.ok_or_else(|| RequestError::protocol("the body names no columns"))?;
    stream.take_place()?;
    let committed = write.commit(stream).await?;
    Ok(Loaded { rows: committed.rows, version: committed.version })
}

/// Rows on their way from a body to their table.
struct Loading<'a> {
    state: &'a Arc<State>,
    caller: Caller,
    name: &'a str,
    stream: Arc<Stream>,
    decoder: Decoder,
    /// Once the columns are known.
    write: Option<Write>,
    /// For what the decoder has.
    held: Reservation,
    deadline: Instant,
}

impl Loading<'_> {
    async fn body(&mut self, mut body: Body) -> Result<()> {
        let mut ended = false;
        while !ended {
            let mut piece = Vec::new();
            while piece.len() < limits::HTTP_PIECE_BYTES && !ended {
                match self.stream.wait(next(&mut body, self.deadline)).await?? {
                    Some(bytes) => piece.extend_from_slice(&bytes),
                    None => ended = true,
                }
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
            if is_last { decoder.finish() } else { Ok(()) }
        });
        decoded.await?;
        if let (None, Some(columns)) = (&self.write, self.decoder.columns()) {
            let open =
                pb::Open { table: self.name.to_owned(), columns: columns.clone(), ..pb::Open::default() };
            self.write = Some(Write::open(self.state, &self.caller, &open)?);
        }
        while let Some(batch) = self.decode(Decoder::next).await? {
            if Instant::now() >= self.deadline {
                return Err(RequestError::deadline());
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
        let worked = self.state.cpu.run(move || (work(&mut decoder), decoder)).await;
        let (done, decoder) = worked?;
        self.decoder = decoder;
        done
    }
}
