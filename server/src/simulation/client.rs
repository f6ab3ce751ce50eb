//! Requests to simulated nodes, and their answers as the model knows them.

use std::{ops::Range, time::Duration};

use basalt_proto::v1::{
    self as pb, ErrorReason, catalog_service_client::CatalogServiceClient,
    ingest_service_client::IngestServiceClient, query_response, query_service_client::QueryServiceClient,
    write_request, write_response,
};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use super::{model::Kind, node};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// What may go wrong while there are faults. Whatever else an error says is a fault of the server's.
const EXPECTED: &[ErrorReason] = &[
    ErrorReason::Cancelled,
    ErrorReason::DeadlineExceeded,
    ErrorReason::Incomplete,
    ErrorReason::OutcomeUnknown,
    ErrorReason::Overloaded,
    ErrorReason::RequestInProgress,
    ErrorReason::ShuttingDown,
    ErrorReason::Starting,
    ErrorReason::StoreUnavailable,
    ErrorReason::WriteConflict,
];

/// The reason of an error; `None`: it is the connection's.
pub(super) fn reason(status: &Status) -> Option<ErrorReason> {
    let details = status.get_error_details();
    let name = format!("ERROR_REASON_{}", details.error_info()?.reason);
    ErrorReason::from_str_name(&name)
}

/// That an error is one of those that faults excuse.
pub(super) fn excused(what: &str, status: &Status, besides: Option<ErrorReason>) -> Result<(), String> {
    let is_expected = match reason(status) {
        Some(reason) => EXPECTED.contains(&reason) || Some(reason) == besides,
        None => matches!(
            status.code(),
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown | Code::Internal
        ),
    };
    if is_expected { Ok(()) } else { Err(format!("{what}: {status:?}")) }
}

/// A client's connection to one node.
#[derive(Clone)]
pub(super) struct Client {
    node: usize,
    channel: Channel,
}

fn expr(kind: pb::expr::Kind) -> Option<pb::Expr> {
    Some(pb::Expr { kind: Some(kind) })
}

/// The columns of the table: the number of a row, and the change that wrote it.
const COLUMNS: [&str; 2] = ["id", "by"];

fn column(name: &str) -> Option<pb::Expr> {
    expr(pb::expr::Kind::Column(name.into()))
}

fn id() -> Option<pb::Expr> {
    column(COLUMNS[0])
}

fn number(n: i64) -> Option<pb::Expr> {
    expr(pb::expr::Kind::Literal(pb::Value { kind: Some(pb::value::Kind::Int(n)) }))
}

fn aggregate(function: pb::AggregateFunction, argument: Option<pb::Expr>) -> pb::SelectItem {
    let aggregate =
        pb::Aggregate { function: function.into(), argument: argument.map(Box::new), distinct: false };
    pb::SelectItem { expr: expr(pb::expr::Kind::Aggregate(Box::new(aggregate))), name: String::new() }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::deadline_exceeded("the client gave up")),
    }
}

impl Client {
    pub(super) fn new(node: usize) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://node{node}:7700")).unwrap();
        let channel = node::channel(&endpoint.connect_timeout(Duration::from_secs(1)));
        Self { node, channel }
    }

    /// The node that it asks.
    pub(super) fn node(&self) -> usize {
        self.node
    }

    pub(super) async fn create(&self) -> Result<(), Status> {
        let data_type = pb::DataType { kind: pb::TypeKind::Int64.into(), precision: 0, scale: 0 };
        let field =
            |name: &str| pb::Field { name: name.into(), r#type: Some(data_type), ..Default::default() };
        let request = pb::CreateTableRequest {
            name: "t".into(),
            schema: Some(pb::Schema { fields: COLUMNS.map(field).to_vec() }),
            if_not_exists: true,
            ..Default::default()
        };
        in_time(CatalogServiceClient::new(self.channel.clone()).create_table(request)).await.map(drop)
    }

    /// Makes a change; the version that has it. Who asks again for one that is no deletion gets the same answer.
    pub(super) async fn change(&self, change: usize, kind: Kind, rows: Range<i64>) -> Result<u64, Status> {
        match kind {
            Kind::Delete => self.delete(rows).await,
            _ => self.write(change, kind, rows).await,
        }
    }

    async fn write(&self, change: usize, kind: Kind, rows: Range<i64>) -> Result<u64, Status> {
        let n = u32::try_from(rows.end - rows.start).unwrap();
        let by = std::iter::repeat_n(i64::try_from(change).unwrap(), n as usize).collect();
        let columns = [rows.collect(), by].map(|values| pb::Column {
            validity: vec![],
            values: Some(pb::column::Values::Int64s(pb::Int64s { values })),
        });
        let rows = Some(pb::batch::Rows::Columns(pb::RecordBatch { rows: n, columns: columns.to_vec() }));
        let open = pb::Open {
            table: "t".into(),
            request_id: format!("change {change}"),
            replace_by: if kind == Kind::Replace { vec![COLUMNS[0].into()] } else { vec![] },
            replace_all: kind == Kind::ReplaceAll,
            ..Default::default()
        };
        let messages = [
            write_request::Kind::Open(open),
            write_request::Kind::Batch(pb::Batch { sequence: 1, rows }),
            write_request::Kind::Commit(pb::Commit { batches: 1, rows: n.into() }),
        ];
        let messages = messages.map(|kind| pb::WriteRequest { kind: Some(kind) });
        in_time(async {
            let mut client = IngestServiceClient::new(self.channel.clone());
            let mut answers = client.write(tokio_stream::iter(messages)).await?.into_inner();
            while let Some(answer) = answers.message().await? {
                if let Some(write_response::Kind::Committed(committed)) = answer.kind {
                    return Ok(committed.version);
                }
            }
            Err(Status::unavailable("the answer ended before its end"))
        })
        .await
    }

    async fn delete(&self, rows: Range<i64>) -> Result<u64, Status> {
        let between = pb::Between { expr: id(), low: number(rows.start), high: number(rows.end - 1) };
        let filter = Some(pb::Filter { kind: Some(pb::filter::Kind::Between(between)) });
        let request = pb::DeleteRequest { table: "t".into(), filter };
        let answer = in_time(IngestServiceClient::new(self.channel.clone()).delete(request)).await?;
        Ok(answer.into_inner().version)
    }

    /// The rows of a version (`None`: the newest) column by column, and which it is.
    pub(super) async fn rows(&self, version: Option<u64>) -> Result<(u64, [Vec<i64>; 2]), Status> {
        let select = COLUMNS.map(|name| pb::SelectItem { expr: column(name), name: String::new() });
        let (version, columns) = self.query(version, select.to_vec()).await?;
        match <[Vec<i64>; 2]>::try_from(columns) {
            Ok(columns) if columns[0].len() == columns[1].len() => Ok((version, columns)),
            _ => Err(Status::data_loss("columns of different lengths")),
        }
    }

    /// Their number and the sums of their columns; of no rows 0.
    pub(super) async fn count(&self) -> Result<(u64, [i64; 3]), Status> {
        let sums = COLUMNS.map(|name| aggregate(pb::AggregateFunction::Sum, column(name)));
        let select = [aggregate(pb::AggregateFunction::Count, None)].into_iter().chain(sums).collect();
        let (version, columns) = self.query(None, select).await?;
        match columns[..] {
            [ref count, ref ids, ref by] if [count, ids, by].iter().all(|column| column.len() == 1) => {
                Ok((version, [count[0], ids[0], by[0]]))
            }
            _ => Err(Status::data_loss(format!("{columns:?} are no count and sums"))),
        }
    }

    /// A query's columns, one after the other.
    async fn query(
        &self,
        version: Option<u64>,
        select: Vec<pb::SelectItem>,
    ) -> Result<(u64, Vec<Vec<i64>>), Status> {
        let mut columns = vec![Vec::new(); select.len()];
        let request = pb::QueryRequest {
            table: "t".into(),
            select,
            version,
            format: pb::Format::Columns.into(),
            ..Default::default()
        };
        let mut request = Request::new(request);
        request.set_timeout(Duration::from_secs(10));
        in_time(async {
            let mut stream = QueryServiceClient::new(self.channel.clone()).query(request).await?.into_inner();
            let (mut at, mut n) = (0, 0);
            while let Some(message) = stream.message().await? {
                match message.kind {
                    Some(query_response::Kind::Header(header)) => at = header.table_version,
                    Some(query_response::Kind::Batch(batch)) => {
                        n += u64::from(batch.rows);
                        for (column, values) in columns.iter_mut().zip(batch.columns) {
                            column.extend(numbers(values.values)?);
                        }
                    }
                    Some(query_response::Kind::Trailer(trailer)) if trailer.complete && trailer.rows == n => {
                        return Ok((at, std::mem::take(&mut columns)));
                    }
                    other => return Err(Status::data_loss(format!("{other:?} behind {n} rows"))),
                }
            }
            Err(Status::data_loss("an answer without its end and without an error"))
        })
        .await
    }
}

fn numbers(values: Option<pb::column::Values>) -> Result<Vec<i64>, Status> {
    match values {
        Some(pb::column::Values::Int64s(values)) => Ok(values.values),
        Some(pb::column::Values::Uint64s(values)) => {
            Ok(values.values.into_iter().map(|n| i64::try_from(n).unwrap()).collect())
        }
        other => Err(Status::data_loss(format!("{other:?} are no numbers"))),
    }
}
