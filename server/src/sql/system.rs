//! The schema `system`: the server as its own statements see it.

use std::sync::Arc;

use basalt_core::{fragment::Fragment, schema::Field, table::Table};
use basalt_proto::v1::{self as pb, NodeState, QueryState};
use basalt_sql::system::{ServerRow, ServerTable, Value};
use basalt_storage::{FragmentEntry, ReadableVersion};
use tokio::time::Instant;

use super::Tables;
use crate::{
    access::{Action, Object},
    convert,
    coordinator::{self, fresh},
    limits, peers,
    sets::{Handle, KeptSet},
    status::Result,
    units::millis,
};

fn int(value: impl TryInto<i64>) -> Value {
    // Default: more than there can be.
    Value::Int(value.try_into().unwrap_or(i64::MAX))
}

impl Tables {
    pub(super) async fn rows_of_server(&self, table: ServerTable) -> Result<Vec<ServerRow>> {
        let (state, caller) = (&self.state, &self.asker.caller);
        match table {
            ServerTable::Queries => {
                let pb::ListQueriesResponse { queries, unanswered } = peers::running(state, caller).await;
                let unanswered = unanswered.into_iter().map(|node| {
                    vec![("node", Value::Text(node.node)), ("problem", Value::Text(node.problem))]
                });
                Ok(queries.into_iter().map(query).chain(unanswered).collect())
            }
            ServerTable::Tables => {
                let (seen, unserved) = fresh::listed(state, caller).await?;
                let unserved = unserved
                    .into_iter()
                    .map(|(name, why)| vec![("name", Value::Text(name)), ("problem", Value::Text(why))]);
                Ok(seen.iter().map(|table| self.table_row(table)).chain(unserved).collect())
            }
            ServerTable::Columns => {
                let mut rows = Vec::new();
                for table in self.seen().await? {
                    let name = table.name();
                    let columns = coordinator::columns(state, caller, name, false, self.deadline).await?;
                    let fields = table.schema().fields().iter().zip(&columns).enumerate();
                    rows.extend(fields.map(|(place, (field, held))| column(name, place, field, held)));
                }
                Ok(rows)
            }
            ServerTable::Fragments => {
                Ok(self.seen().await?.iter().flat_map(|table| self.fragments(table)).collect())
            }
            ServerTable::Versions => {
                let mut rows = Vec::new();
                for table in self.seen().await? {
                    let versions = state.tables.readable(&table).await;
                    let versions = versions.map_err(|error| fresh::of_table(table.name(), error))?;
                    rows.extend(versions.into_iter().map(|(of, counted)| version(table.name(), of, counted)));
                }
                Ok(rows)
            }
            ServerTable::Nodes => {
                self.asker.authorise(Action::Observe, Object::Server)?;
                Ok(peers::overview(state).await.nodes.iter().map(node).collect())
            }
            ServerTable::NodeTables => {
                self.asker.authorise(Action::Observe, Object::Server)?;
                Ok(peers::overview(state).await.nodes.iter().flat_map(held).collect())
            }
            ServerTable::Sets => {
                let now = Instant::now();
                let sets = state.sets.shown_to(caller, now).into_iter();
                let seen = sets.filter(|(_, set, _)| match set.scope.table.as_str() {
                    "" => true,
                    table => caller.may_see(table),
                });
                let row = |(handle, set, expires): (Handle, KeptSet, Instant)| {
                    let mut row = vec![
                        ("handle", hex(&handle)),
                        ("cardinality", int(set.sip.cardinality())),
                        ("bytes", int(set.sip.as_bytes().len())),
                        ("expires_ms", int(millis(expires - now))),
                    ];
                    if !set.scope.table.is_empty() {
                        row.push(("table_name", Value::Text(set.scope.table)));
                        row.push(("version", int(set.scope.version)));
                    }
                    row.extend(set.scope.key.map(|key| ("column", Value::Text(key.column))));
                    row
                };
                Ok(seen.map(row).collect())
            }
        }
    }

    /// The tables that whoever asks may see, as new as what was acknowledged.
    async fn seen(&self) -> Result<Vec<Arc<Table>>> {
        Ok(fresh::listed(&self.state, &self.asker.caller).await?.0)
    }

    fn table_row(&self, table: &Table) -> ServerRow {
        let told = convert::told(&self.state.tables, table);
        let mut row = vec![
            ("name", Value::Text(told.name)),
            ("version", int(told.version)),
            ("rows", int(told.rows)),
            ("columns", int(table.schema().fields().len())),
            ("fragments", int(told.fragments)),
            ("bytes", int(told.bytes)),
        ];
        let kept = |of: pb::Retention| Value::Text(format!("{} seconds by {}", of.seconds, of.column));
        row.extend(told.retention.map(|retention| ("retention", kept(retention))));
        match pb::Deletes::try_from(told.deletes) {
            Ok(pb::Deletes::Unspecified) | Err(_) => {}
            Ok(deletes) => row.push(("deletes", name_of(deletes.as_str_name(), "DELETES_"))),
        }
        row
    }

    fn fragments(&self, table: &Table) -> Vec<ServerRow> {
        let name = |row: ServerRow| -> ServerRow {
            [("table_name", table.name().into())].into_iter().chain(row).collect()
        };
        let Some(stored) = self.state.tables.state(table) else {
            let snapshot = table.snapshot();
            let row = |(id, fragment): (usize, &Fragment)| {
                vec![
                    ("id", int(id)),
                    ("rows", int(fragment.rows())),
                    ("live_rows", int(fragment.live_rows())),
                    ("bytes", int(fragment.bytes())),
                ]
            };
            return snapshot.fragments().iter().enumerate().map(row).map(name).collect();
        };
        let row = |fragment: &FragmentEntry| {
            let mut row = vec![
                ("id", int(fragment.id)),
                ("rows", int(fragment.rows)),
                ("live_rows", int(fragment.live_rows())),
                ("file", fragment.file.path().into()),
            ];
            row.extend(fragment.encoded_bytes().map(|bytes| ("bytes", int(bytes))));
            row
        };
        stored.fragments().iter().map(row).map(name).collect()
    }
}

/// A value of an enumeration, as it is called without its prefix.
fn name_of(name: &str, prefix: &str) -> Value {
    Value::Text(name.strip_prefix(prefix).unwrap_or(name).to_lowercase())
}

fn hex(bytes: &[u8]) -> Value {
    Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn query(query: pb::RunningQuery) -> ServerRow {
    let state = QueryState::try_from(query.state).unwrap_or_default();
    let mut row = vec![
        ("id", Value::Text(query.id)),
        ("state", name_of(state.as_str_name(), "QUERY_STATE_")),
        ("text", Value::Text(query.text)),
        ("method", Value::Text(query.method)),
        ("caller", Value::Text(query.caller)),
        ("started", Value::Time(query.started_us)),
        ("elapsed_ms", int(query.elapsed_ms)),
        ("rows", int(query.rows)),
    ];
    if !query.node.is_empty() {
        row.push(("node", Value::Text(query.node)));
    }
    row
}

fn column(table: &str, place: usize, field: &Field, column: &pb::ColumnInfo) -> ServerRow {
    let mut row = vec![
        ("table_name", table.into()),
        ("name", field.name.as_str().into()),
        ("position", int(place + 1)),
        ("type", Value::Text(field.type_name())),
        ("nullable", Value::Bool(field.nullable)),
        ("rows", int(column.rows)),
        ("nulls", int(column.nulls)),
        ("bytes", int(column.bytes)),
        ("plain_bytes", int(column.plain_bytes)),
    ];
    if column.rows > 0 {
        row.push(("bits_per_value", Value::Float(column.bytes as f64 * 8.0 / column.rows as f64)));
    }
    let encodings: Vec<_> = column.encodings.iter().map(|of| of.encoding.as_str()).collect();
    row.push(("encodings", Value::Text(encodings.join(", "))));
    row.extend(field.references.as_ref().map(|to| ("references", Value::Text(to.to_string()))));
    row
}

fn version(table: &str, of: ReadableVersion, rows: Option<u64>) -> ServerRow {
    let mut row = vec![("table_name", table.into()), ("version", int(of.version))];
    row.extend(of.committed.map(|millis| ("committed", Value::Time(millis.saturating_mul(1000)))));
    // Another writer may call it whatever it likes.
    let operation = |text: String| Value::Text(text.chars().take(limits::TOLD_NAME_CHARS).collect());
    row.extend(of.operation.map(|text| ("operation", operation(text))));
    row.extend(rows.map(|rows| ("rows", int(rows))));
    row
}

fn node(node: &pb::Node) -> ServerRow {
    let sum = |of: fn(&pb::NodeTable) -> u64| int(node.tables.iter().map(of).sum::<u64>());
    let mut row = vec![
        ("state", name_of(node.state().as_str_name(), "NODE_STATE_")),
        ("own", Value::Bool(node.own)),
        ("silent_ms", int(node.silent_ms)),
    ];
    if !node.name.is_empty() {
        row.push(("name", node.name.as_str().into()));
    }
    if node.state() != NodeState::Unspecified && !node.version.is_empty() {
        row.extend([
            ("version", node.version.as_str().into()),
            ("uptime_ms", int(node.uptime_ms)),
            ("memory_bytes", int(node.memory_bytes)),
            ("memory_limit_bytes", int(node.memory_limit_bytes)),
            ("fragments", sum(|table| table.fragments)),
            ("rows", sum(|table| table.rows)),
            ("held_bytes", sum(|table| table.bytes)),
        ]);
    }
    row
}

fn held(node: &pb::Node) -> impl Iterator<Item = ServerRow> {
    node.tables.iter().map(|table| {
        let mut row = vec![
            ("table_name", table.name.as_str().into()),
            ("version", int(table.version)),
            ("lag", int(table.lag)),
            ("fragments", int(table.fragments)),
            ("rows", int(table.rows)),
            ("bytes", int(table.bytes)),
        ];
        if !node.name.is_empty() {
            row.push(("node", node.name.as_str().into()));
        }
        row
    })
}
