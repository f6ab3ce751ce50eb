//! What the targets of the server begin with, where there is no corpus.

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use basalt_core::{
    encoding::TextMembers,
    exec::{BuiltSet, Control},
    fragment::Column,
    schema::{DataType, Field},
};
use basalt_proto::{cluster::v1 as peer, v1 as pb};
use basalt_sip::Sip;
use parquet::arrow::ArrowWriter;
use prost::Message as _;
use std::sync::Arc;

use super::{
    TABLES, joined,
    requests::PLANS,
    rows::{CACHE_KEY, CACHE_ROWS},
    script::Script,
};
use crate::{
    convert,
    disk::file::{Contents, Source},
};

/// Scripts of queries, see [`Script`]: rows, sorted rows, groups, and aggregates of all rows.
pub(super) const SCRIPTS: &[&[u8]] = &[
    &[0, 3, 0, 4, 0, 9, 0, 14, 0, 0],
    &[1, 2, 0, 0, 0, 15, 3, 4, 0, 4, 3, 2, 0, 50, 0, 0],
    &[8, 2, 0, 4, 0, 14, 0, 2, 1, 0, 10, 2, 0, 4, 20],
    &[0, 2, 0, 14, 5, 1, 0, 4, 1, 0, 14, 0],
    &[0, 4, 5, 1, 0, 4, 5, 2, 0, 14, 5, 4, 0, 10, 5, 0x40, 0, 14, 0, 0],
    &[0, 3, 5, 0x80, 5, 1, 0, 9, 5, 3, 0, 13, 2, 0, 0, 0, 4, 0],
    &[1, 1, 0, 15, 9, 18, 0, 0, 3, 2, 0, 20, 0, 0],
    &[0, 1, 6, 0, 1, 6, 0, 0],
    &[1, 1, 7, 0, 8, 0, 13, 6, 0, 14, 2, 7, 3, 7, 4, 1, 0, 0],
    &[0, 2, 0, 15, 5, 3, 0, 16, 1, 0, 15, 0],
];

/// The seeds of a target.
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    let with = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    match name {
        "query" => SCRIPTS
            .iter()
            .flat_map(|script| [with(1, script), with(0, &Script::new(script).query().encode_to_vec())])
            .collect(),
        "task" => tasks(),
        "part" => parts(),
        "message" => messages(),
        "batch" => {
            let mut all = Vec::new();
            let mut take = |batch: &RecordBatch, kind: u8| {
                let rows = convert::to_rows(batch).expect("rows");
                let rows = Some(pb::batch::Rows::Columns(rows));
                all.push(with(kind, &pb::Batch { sequence: 0, rows }.encode_to_vec()));
                all.push(with(kind | 1, &convert::to_ipc(batch).expect("a stream")));
            };
            let batch = rows();
            take(&batch, 0);
            for column in 0..batch.num_columns() {
                let kind = u8::try_from(column).expect("few columns") << 1;
                take(&batch.project(&[column]).expect("a column"), if kind == 0 { 38 } else { kind });
            }
            all
        }
        "csv_rows" => [
            "int64,utf8,timestamp\n1,a,2020-01-01T00:00:00Z\n,\"x\"\"y\n\",NA\n-5,NA,2020-01-01 10:00\n",
            "\u{feff}bool,float64,date32,decimal\r\ntrue,1e3,2020-01-01,1.50\r\nfalse,NaN,,NA\r\n",
            "\n\nuint64,l15,l16,l17\n18446744073709551615,1.234,abc,10:20:30.5\n",
        ]
        .map(|text| with(7, text.as_bytes()))
        .to_vec(),
        "json_rows" => [
            "{\"int64\": 1, \"utf8\": \"a\\u00e9\", \"timestamp\": \"2020-01-01T00:00:00Z\"}\n{\"int64\": null}\n",
            "{\"bool\": true, \"float64\": 1e3, \"date32\": \"2020-01-01\", \"decimal\": 1.5}\n\n{\"u\": 7}",
            "{\"uint64\": 18446744073709551615, \"l15\": 1.234, \"l16\": \"abc\", \"l17\": \"10:20:30.5\"}",
        ]
        .map(|text| with(9, text.as_bytes()))
        .to_vec(),
        "arrow_rows" => streams().iter().map(|stream| with(200, stream)).collect(),
        "parquet_rows" => files(),
        "cache_file" => vec![with(1, &cache()), with(0, &cache())],
        "http" => https(),
        #[cfg(feature = "sql")]
        "postgres" => postgres(),
        #[cfg(feature = "sql")]
        "statement" => STATEMENTS.iter().map(|sql| sql.as_bytes().to_vec()).collect(),
        _ => Vec::new(),
    }
}

/// Requests of HTTP.
fn https() -> Vec<Vec<u8>> {
    let post = |path: &str, media_type: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let get = |path: &str, headers: &str| format!("GET {path} HTTP/1.1\r\nhost: h\r\n{headers}\r\n");
    let chunked = "POST /v1/tables/t HTTP/1.1\r\nhost: h\r\ncontent-type: text/csv\r\ntransfer-encoding: chunked\r\n\r\n7\r\nint64\n1\r\n2\r\n2\n\r\n0\r\n\r\n";
    [
        get("/metrics", "accept: application/openmetrics-text;q=0.5, text/plain\r\n"),
        get("/v1/tables", "authorization: Bearer x\r\n")
            + &get(
                "/v1/tables/t",
                "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
            ),
        get("/console/", "if-none-match: \"x\"\r\naccept-encoding: gzip\r\n"),
        post("/v1/tables/t", "text/csv", "int64,utf8\n1,a\n2,\"b\"\n"),
        post(
            "/v1/tables/t?null=NA&deadline_ms=1000&replace_by=int64",
            "application/x-ndjson",
            "{\"int64\": 1, \"utf8\": \"a\"}\n",
        ),
        post("/v1/tables/x?create=true", "text/csv", "a,b\n1,2020-01-01\n"),
        post(
            "/v1/sql",
            "application/json",
            "{\"sql\": \"SELECT int64 FROM t WHERE utf8 = $1\", \"parameters\": [\"a\"]}",
        ),
        post("/v1/sql?format=csv", "application/sql", "SELECT 1"),
        chunked.to_owned(),
        "OPTIONS * HTTP/1.1\r\nhost: h\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.0\r\n\r\n".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Statements of many kinds.
#[cfg(feature = "sql")]
const STATEMENTS: &[&str] = &[
    "SELECT int64, count(*), sum(decimal) FROM t WHERE utf8 LIKE 'a%' AND date32 > DATE '2020-01-01' GROUP BY 1 HAVING count(*) > 1 ORDER BY 2 DESC NULLS LAST LIMIT 3 OFFSET 1",
    "WITH x AS (SELECT a.int64 AS i, b.utf8 FROM t a LEFT JOIN t b USING (int64)) SELECT * FROM x WHERE i IN (SELECT int32 FROM t) UNION ALL SELECT 1, 'x'",
    "SELECT row_number() OVER (PARTITION BY bool ORDER BY timestamp ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), lag(int64, 2) OVER w FROM t WINDOW w AS (ORDER BY int64)",
    "SELECT CASE WHEN bool THEN 1 ELSE CAST(utf8 AS INTEGER) END, timestamp + INTERVAL '1 day 2 hours', extract(year FROM date32), date_trunc('month', timestamp)::date FROM t",
    "INSERT INTO t (int64, utf8) VALUES (1, 'a'), ($1, $2) ON CONFLICT (int64) DO UPDATE SET utf8 = excluded.utf8",
    "UPDATE t SET utf8 = upper(utf8) || 'x' WHERE int64 BETWEEN 1 AND 5",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t x WHERE x.int64 = t.int64 AND x.utf8 <> t.utf8)",
    "CREATE TABLE x (a BIGINT NOT NULL, b DECIMAL(10,2), c TIMESTAMP, PRIMARY KEY (a)) WITH (retention = '1 day')",
    "CREATE OR REPLACE VIEW v AS SELECT * EXCLUDE (bool) FROM t; DROP VIEW v",
    "ALTER TABLE t ADD COLUMN y INT; ALTER TABLE t RENAME COLUMN y TO z",
    "EXPLAIN ANALYZE SELECT DISTINCT ON (int64) list_transform([1, 2, int64], x -> x + 1), {'a': 1}['a'] FROM t ASOF JOIN t u ON t.timestamp >= u.timestamp",
    "COPY t FROM STDIN WITH (FORMAT csv, HEADER true)",
    "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r','v') AND c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(a, b), generate_series(1, 3) s, unnest([1, 2]) WHERE a = ANY ('{1,2}') QUALIFY rank() OVER (ORDER BY a) = 1",
    "SELECT t.* REPLACE (int64 + 1 AS int64), COLUMNS('int.*'), quantile_cont(float64, 0.5) FILTER (WHERE bool) FROM t GROUP BY ALL",
    "SELECT json_extract(utf8, '$.a[0]'), regexp_replace(utf8, '(a)(b)', '\\2'), strftime(timestamp, '%Y-%m-%d'), '1 month'::interval, x'ff', 1e400, -9223372036854775808 FROM t PIVOT (sum(int64) FOR bool IN (true, false))",
    "SHOW TABLES; DESCRIBE t; SUMMARIZE t; SET timezone = 'UTC'; BEGIN; COMMIT",
];

/// Messages of PostgreSQL's clients.
#[cfg(feature = "sql")]
fn postgres() -> Vec<Vec<u8>> {
    use super::doors::message;
    let query = |sql: &str| message(b'Q', &[sql.as_bytes(), b"\0"]);
    let sync = || message(b'S', &[]);
    let parse = |sql: &str, types: &[u8]| message(b'P', &[b"s\0", sql.as_bytes(), b"\0", types]);
    let bind = |rest: &[u8]| message(b'B', &[b"p\0s\0", rest]);
    let describe = |kind: &[u8]| message(b'D', &[kind]);
    let execute = |rows: u8| message(b'E', &[b"p\0", &[0, 0, 0, rows]]);
    let extended = [
        parse("SELECT int64, utf8, $1::bigint FROM t LIMIT $2", &[0, 2, 0, 0, 0, 20, 0, 0, 0, 0]),
        describe(b"Ss\0"),
        bind(&[
            0, 1, 0, 1, 0, 2, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1,
            0, 1,
        ]),
        describe(b"Pp\0"),
        execute(1),
        execute(0),
        message(b'C', &[b"Pp\0"]),
        message(b'H', &[]),
        sync(),
    ]
    .concat();
    let texts = [
        parse("SELECT $1::numeric, $2::timestamp, $3::text[]", &[0, 0]),
        bind(b"\0\0\0\x03\0\0\0\x031.5\0\0\0\x0a2020-01-01\xff\xff\xff\xff\0\0"),
        execute(0),
        sync(),
    ]
    .concat();
    let copy = [
        query("COPY t (int64, utf8) FROM STDIN"),
        message(b'd', &[b"1\ta\n2\t\\N\n"]),
        message(b'd', &[b"\\.\n"]),
        message(b'c', &[]),
        query("COPY t (int64, utf8) FROM STDIN (FORMAT binary)"),
        message(
            b'd',
            &[
                b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0",
                b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x05\0\0\0\x01x",
                b"\xff\xff",
            ],
        ),
        message(b'c', &[]),
        query("COPY t FROM STDIN (FORMAT csv, HEADER)"),
        message(b'f', &[b"no\0"]),
        query("COPY (SELECT 1, 'a') TO STDOUT (FORMAT binary)"),
    ]
    .concat();
    let transaction = [
        query("BEGIN; SELECT 1; SELECT 1/0; COMMIT"),
        query("ROLLBACK"),
        query("SET TIME ZONE 'UTC'; SHOW ALL"),
        query("PREPARE x AS SELECT $1::int; EXECUTE x(1); DEALLOCATE ALL"),
        query("DECLARE c CURSOR FOR SELECT int64 FROM t; FETCH 2 FROM c"),
        query(""),
    ]
    .concat();
    let cancel = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07\0\0\0\x09".to_vec();
    let start =
        b"\0\0\0\x08\x04\xd2\x16\x2f\0\0\0\x22\0\x03\0\x02user\0a\0_pq_.x\0y\0database\0d\0\0".to_vec();
    let with = |kind: u8, bytes: Vec<u8>| [&[kind][..], &bytes].concat();
    vec![
        with(0, extended),
        with(0, texts),
        with(0, copy),
        with(0, transaction),
        with(0, query("SELECT * FROM t; SELECT typname FROM pg_type LIMIT 1")),
        with(1, cancel),
        with(1, start),
    ]
}

/// Rows of the table of all types.
fn rows() -> RecordBatch {
    let (query, _) = convert::query(pb::QueryRequest { limit: Some(10), ..Default::default() }, &TABLES.sets)
        .expect("a query");
    let plan = basalt_core::plan::Plan::new(&TABLES.all, &TABLES.snapshot, &query).expect("a plan");
    let mut found = None;
    plan.run(&TABLES.snapshot, &Control::default(), &mut |batch| {
        found = Some(batch);
        Ok(())
    })
    .expect("rows");
    found.expect("rows")
}

fn streams() -> Vec<Vec<u8>> {
    let words = ["a", "b", "a long text that is in a buffer of its own"];
    let dictionary: arrow_array::DictionaryArray<arrow_array::types::Int8Type> =
        words.into_iter().map(Some).collect();
    let columns: [(&str, arrow_array::ArrayRef); 6] = [
        ("int64", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
        ("utf8", Arc::new(StringArray::from(words.to_vec()))),
        ("l16", Arc::new(arrow_array::BinaryArray::from_iter_values(words))),
        ("bool", Arc::new(arrow_array::BooleanArray::from(vec![true, false, true]))),
        ("float32", Arc::new(arrow_array::NullArray::new(3))),
        ("float64", Arc::new(arrow_array::Float64Array::from(vec![1.5, f64::NAN, 0.0]))),
    ];
    let strange: [(&str, arrow_array::ArrayRef); 2] = [
        ("utf8", Arc::new(dictionary)),
        ("l16", Arc::new(arrow_array::StringViewArray::from(words.to_vec()))),
    ];
    let batch = |columns: Vec<(&str, arrow_array::ArrayRef)>| {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
    };
    let mut all = Vec::new();
    for batch in [rows(), batch(columns.to_vec()), batch(strange.to_vec())] {
        let mut stream = Vec::new();
        let mut writer = StreamWriter::try_new(&mut stream, &batch.schema()).expect("a stream");
        writer.write(&batch).expect("rows");
        writer.write(&batch.slice(1, 2)).expect("rows");
        writer.finish().expect("a stream");
        all.push(stream);
    }
    all
}

fn files() -> Vec<Vec<u8>> {
    let all = rows();
    let mut batches = vec![all.clone()];
    batches.extend([4, 10, 13, 14].map(|column| all.project(&[column]).expect("a column")));
    let mut files = Vec::new();
    for batch in batches {
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).expect("a file");
        writer.write(&batch).expect("rows");
        writer.close().expect("a file");
        let (rest, end) = file.split_at(file.len() - 8);
        files.push([&rest[4..], &end[..2]].concat());
    }
    files
}

fn cache() -> Vec<u8> {
    let keys: Vec<i64> = (0..i64::from(CACHE_ROWS)).map(|i| i * i % 1001).collect();
    let texts: StringArray = keys.iter().map(|key| Some(format!("text {key}"))).collect();
    let field = Field::new("a", DataType::Int64, true);
    let columns = [
        Column::from_keys(&field, &keys, Some(&[0x55_5555_5555])).expect("a column"),
        Column::from_texts(&Field::new("t", DataType::Utf8, true), &texts, None).expect("a column"),
    ];
    let sources = columns.iter().zip(7..).map(|(column, id)| (id, Source::Memory(column.to_parts())));
    let contents = Contents::new(CACHE_KEY, CACHE_ROWS, sources.collect()).expect("a file");
    let mut file = Vec::new();
    contents.write(&mut file).expect("a file");
    file
}

fn tasks() -> Vec<Vec<u8>> {
    let task = |request: peer::task::Request, sets: &[BuiltSet]| {
        let sets: Vec<_> = sets.iter().map(convert::to_join_set).collect();
        let heads = sets.iter().map(|(head, _)| *head).collect();
        let task = peer::Task { request: Some(request), sets: heads, ..Default::default() }.encode_to_vec();
        joined(std::iter::once(&*task).chain(sets.iter().map(|(_, bytes)| &**bytes)))
    };
    let keys = BuiltSet::Keys {
        data_type: DataType::Int32,
        has_null: true,
        sip: Arc::new(Sip::from_sorted_ids(&[1, 5, 40])),
    };
    let texts: TextMembers = ["text 1", "text 4"].map(Box::<str>::from).into_iter().collect();
    let texts = BuiltSet::Texts { texts: Arc::new(texts), has_null: false };
    let join = |column: &str| pb::Filter {
        kind: Some(pb::filter::Kind::SemiJoin(Box::new(pb::SemiJoin {
            column: column.to_owned(),
            table: "u".to_owned(),
            key: "k".to_owned(),
            filter: None,
            version: None,
        }))),
    };
    let mut all: Vec<Vec<u8>> = SCRIPTS
        .iter()
        .map(|script| task(peer::task::Request::Query(Script::new(script).query()), &[]))
        .collect();
    for (column, set) in [("u", keys), ("utf8", texts)] {
        let select = |key: &str| pb::SelectRequest {
            table: "t".to_owned(),
            filter: Some(join(column)),
            key: key.to_owned(),
            ..Default::default()
        };
        all.push(task(peer::task::Request::Select(select("")), std::slice::from_ref(&set)));
        all.push(task(peer::task::Request::Select(select("utf8")), std::slice::from_ref(&set)));
    }
    all.push(task(peer::task::Request::Describe(peer::Describe { estimates: true }), &[]));
    all
}

fn parts() -> Vec<Vec<u8>> {
    let of_plan = |(kind, plan): (usize, &basalt_core::plan::Plan)| {
        let mut messages = Vec::new();
        plan.run_part(&TABLES.snapshot, &Control::default(), &mut |part| {
            convert::to_messages(part, &mut |message| {
                messages.push(message);
                Ok(())
            })
            .expect("a part has a form");
            Ok(())
        })
        .expect("parts");
        let kind = u8::try_from(kind).expect("few plans");
        [&[kind][..], &joined(messages.iter().map(|message| &message[..]))].concat()
    };
    PLANS.iter().enumerate().map(of_plan).collect()
}

fn messages() -> Vec<Vec<u8>> {
    let with = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    let schema = Some(convert::to_schema(TABLES.all.schema()));
    let retention = Some(pb::Retention { column: "timestamp".to_owned(), seconds: 60 });
    let create = pb::CreateTableRequest {
        name: "x".to_owned(),
        schema,
        retention,
        optimize: 1,
        deletes: 2,
        ..Default::default()
    };
    let sip = Sip::from_sorted_ids(&[1, 2, 3, 70_000]);
    let scope = pb::Scope {
        table: "t".to_owned(),
        version: 1,
        key: Some(pb::KeyDomain {
            column: "u".to_owned(),
            r#type: Some(pb::DataType { kind: 4, ..Default::default() }),
            has_null: true,
        }),
        table_id: 0,
    };
    let put = pb::PutSipRequest { scope: Some(scope), sip: sip.as_bytes().to_vec().into(), ttl_ms: 1 };
    let set = BuiltSet::Keys { data_type: DataType::Int64, has_null: true, sip: Arc::new(sip) };
    let (head, bytes) = convert::to_join_set(&set);
    let filter = Script::new(SCRIPTS[1]).query().filter;
    let delete = pb::DeleteRequest { table: "t".to_owned(), filter };
    vec![
        with(0, &create.encode_to_vec()),
        with(1, &put.encode_to_vec()),
        with(2, &joined([&*head.encode_to_vec(), &*bytes])),
        with(3, &convert::to_values(&set)),
        with(4, &delete.encode_to_vec()),
    ]
}
