//! `GET /v1/tables` and `GET /v1/tables/NAME`: what tables there are, and what they have.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State as Shared},
    http::{header, request::Parts},
    response::{IntoResponse, Response},
};
use basalt_core::{schema::Field, table::Table};
use basalt_proto::v1 as pb;
use serde::Serialize;

use super::{
    error::{json, refuse},
    options::{Options, wrong},
};
use crate::{
    access::{Action, Object},
    call::{Arrival, Call},
    coordinator::{self, fresh},
    limits,
    state::State,
    status::{RequestError, Result},
};

/// A page of tables.
#[derive(Debug, Serialize)]
struct Page {
    tables: Vec<Known>,
    /// The last name, with which the next page is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A table.
#[derive(Debug, Serialize)]
struct Known {
    name: String,
    version: u64,
    rows: u64,
}

/// A table with its columns.
#[derive(Debug, Serialize)]
struct Described {
    #[serde(flatten)]
    table: Known,
    columns: Vec<Column>,
}

#[derive(Debug, Serialize)]
struct Column {
    name: String,
    r#type: String,
    nullable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    references: Option<String>,
    /// How it is held, where that is asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
}

/// How a column is held, by the whole cluster.
#[derive(Debug, Serialize)]
struct Held {
    nulls: u64,
    bytes: u64,
    /// As plain arrays of Arrow.
    plain_bytes: u64,
    /// Bits a value, were each as long as its share of the values needs.
    entropy_bits: Option<f64>,
    /// How often it was read lately.
    heat: f64,
    forms: Vec<Form>,
    /// Those that are held beside, to be faster.
    faster: Vec<Form>,
}

#[derive(Debug, Serialize)]
struct Form {
    encoding: String,
    fragments: u64,
    bytes: u64,
}

impl Held {
    fn new(info: &pb::ColumnInfo) -> Self {
        let form = |of: &pb::EncodingUse| Form {
            encoding: of.encoding.clone(),
            fragments: of.fragments,
            bytes: of.bytes,
        };
        Self {
            nulls: info.nulls,
            bytes: info.bytes,
            plain_bytes: info.plain_bytes,
            entropy_bits: info.entropy_bits,
            heat: info.heat,
            forms: info.encodings.iter().map(form).collect(),
            faster: info.faster.iter().map(form).collect(),
        }
    }
}

pub(super) async fn tables(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let Some(mut call) = parts.extensions.get::<Arrival>().cloned().map(Call::of) else {
        return refuse(&RequestError::internal());
    };
    let listed = list(&state, &mut call, &parts).await;
    answered(call, listed)
}

pub(super) async fn table(
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let Some(mut call) = parts.extensions.get::<Arrival>().cloned().map(Call::of) else {
        return refuse(&RequestError::internal());
    };
    let described = describe(&state, &mut call, &parts, &name).await;
    answered(call, described)
}

async fn list(state: &Arc<State>, call: &mut Call, parts: &Parts) -> Result<String> {
    let options = Options::new(&parts.uri, &parts.headers, &["after", "limit"])?;
    let (default, most) = limits::PAGE_TABLES;
    let size = match options.get("limit").map(str::parse::<usize>) {
        None => default,
        Some(Ok(size @ 1..)) => size.min(most),
        Some(_) => return Err(wrong("the limit is no number of tables").at("limit")),
    };
    let (tables, _) = fresh::listed(state, call.caller()).await?;
    let after = options.get("after").unwrap_or_default();
    let mut rest = tables.iter().skip_while(|table| table.name() <= after);
    let page: Vec<Known> = rest.by_ref().take(size).map(|table| known(state, table)).collect();
    let next = rest.next().and(page.last()).map(|table| table.name.clone());
    Ok(json(&Page { tables: page, next }))
}

async fn describe(state: &Arc<State>, call: &mut Call, parts: &Parts, name: &str) -> Result<String> {
    call.may(Action::Read, Object::Table(name))?;
    let options = Options::new(&parts.uri, &parts.headers, &["view"])?;
    let is_full = match options.get("view") {
        None | Some("schema") => false,
        Some("full") => true,
        Some(_) => return Err(wrong("the view is `schema` or `full`").at("view")),
    };
    let table = fresh::table(state, name).await.map_err(|error| state.meant(error, name, call.caller()))?;
    call.table = Some(Arc::clone(&table));
    let mut columns: Vec<_> = table.schema().fields().iter().map(column).collect();
    if is_full {
        let held = coordinator::columns(state, call.caller(), name, true, state.deadline(call)?).await?;
        columns.iter_mut().zip(&held).for_each(|(column, info)| column.held = Some(Held::new(info)));
    }
    Ok(json(&Described { table: known(state, &table), columns }))
}

fn answered(mut call: Call, answer: Result<String>) -> Response {
    match answer {
        Ok(body) => {
            call.done();
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => {
            call.fail(error.clone());
            refuse(&error)
        }
    }
}

/// A table as the whole cluster has it.
fn known(state: &State, table: &Table) -> Known {
    let name = table.name().to_owned();
    match state.tables.state(table) {
        Some(whole) => Known { name, version: whole.version(), rows: whole.rows() },
        None => {
            let snapshot = table.snapshot();
            Known { name, version: snapshot.version(), rows: snapshot.rows() }
        }
    }
}

fn column(field: &Field) -> Column {
    Column {
        name: field.name.clone(),
        r#type: field.type_name(),
        nullable: field.nullable,
        references: field.references.as_ref().map(ToString::to_string),
        held: None,
    }
}
