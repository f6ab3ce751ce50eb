//! Types that are held in the form of others, and nested columns of other writers: loaded, kept, given back, exactly.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use arrow_array::{
    ArrayRef, BinaryArray, Decimal128Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, Time64MicrosecondArray,
    cast::AsArray as _,
    types::{Int32Type, Int64Type},
};
use arrow_schema::{DataType, Field};
use basalt_client::{col, count, max, min};
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    attached::{Theirs, at, mapped, plain, restart},
    cli::basalt,
};

fn wide() -> ArrayRef {
    let values = vec![Some(10_i128.pow(37) + 1), None, Some(-1), Some(0), Some(-(10_i128.pow(38) - 1))];
    Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 10).unwrap())
}

fn write(path: &Path, batch: &RecordBatch) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn rows() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("a b", Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5])), false),
        ("x.y", wide(), true),
        (
            "b",
            Arc::new(BinaryArray::from(vec![
                Some(b"\0\xff".as_slice()),
                Some(b""),
                None,
                Some(b"b"),
                Some(b"a"),
            ])),
            true,
        ),
        (
            "t",
            Arc::new(Time64MicrosecondArray::from(vec![
                Some(0),
                Some(86_399_999_999),
                None,
                Some(1),
                Some(2),
            ])),
            true,
        ),
        (
            "l",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
                Some(vec![Some(1), None]),
                None,
                Some(vec![]),
                Some(vec![Some(2)]),
                None,
            ])),
            true,
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

const ANSWER: &str = "a b,x.y,b,t,l
1,1000000000000000000000000000.0000000001,00ff,00:00:00,\"[1,null]\"
2,,\"\",23:59:59.999999,
3,-0.0000000001,,,[]
4,0.0000000000,62,00:00:00.000001,[2]
5,-9999999999999999999999999999.9999999999,61,00:00:00.000002,
";

#[tokio::test]
async fn wide_decimals_bytes_and_times_are_kept_exactly() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = at(&store).await;
    let path = folder.path().join("f.parquet");
    write(&path, &rows());
    basalt(&server, &["load", "t", path.to_str().unwrap()]).await.unwrap();
    // Small writes are one fragment later; each is a file.
    let query = ["query", "SELECT * FROM t", "--format", "csv"];
    assert_eq!(basalt(&server, &query).await.unwrap(), ANSWER);
    let server = restart(server, &store).await;
    assert_eq!(basalt(&server, &query).await.unwrap(), ANSWER);

    let schema = server.client.table("t").await.unwrap().table.schema;
    let types: Vec<_> = schema.fields().iter().map(|f| basalt_client::type_name(f.data_type())).collect();
    assert_eq!(types, ["int32", "decimal(38,10)", "binary", "time", "utf8"]);
    assert_eq!(schema.field(0).name(), "a b");

    // They are ordered and grouped as what they are.
    let query = || server.client.query("t");
    let edges = query().select([min(col("x.y")), max(col("x.y")), min(col("b")), max(col("t"))]);
    let edges = edges.collect().await.unwrap().batches.remove(0);
    let decimals = |i: usize| edges.column(i).as_primitive::<arrow_array::types::Decimal128Type>().value(0);
    assert_eq!((decimals(0), decimals(1)), (-(10_i128.pow(38) - 1), 10_i128.pow(37) + 1));
    assert_eq!(edges.column(2).as_binary::<i32>().value(0), b"");
    let times = edges.column(3).as_primitive::<arrow_array::types::Time64MicrosecondType>();
    assert_eq!(times.value(0), 86_399_999_999);
    let groups = query().group_by([col("b")]).select([col("b"), count()]).collect().await.unwrap();
    assert_eq!(groups.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);

    let found = |condition: &'static str| {
        let query = format!("SELECT count(*) AS n FROM t WHERE {condition}");
        let server = &server;
        async move { basalt(server, &["query", &query, "--format", "csv"]).await }
    };
    for (condition, rows) in [
        ("\"x.y\" > -1", 3),
        ("\"x.y\" = -0.0000000001", 1),
        ("\"x.y\" IN (0, 5)", 1),
        ("\"x.y\" IS NULL", 1),
        ("b < '61'", 2),
        ("t BETWEEN '00:00:00' AND '12:00:00'", 3),
        ("\"a b\" = 3", 1),
    ] {
        assert_eq!(found(condition).await.as_deref(), Ok(format!("n\n{rows}\n").as_str()), "{condition}");
    }
    // The typed API takes the digits of bytes.
    let of_bytes = |digits: &'static str| query().filter(col("b").eq(digits)).select([count()]).collect();
    let rows = of_bytes("00ff").await.unwrap().batches[0].column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(rows, 1);
    let error = of_bytes("x").await.unwrap_err();
    assert!(error.to_string().contains("binary"), "{error}");

    // What no column of the type has is refused, with its row.
    let schema = ["load", "u", "--schema", "b binary"];
    let csv = folder.path().join("f.csv");
    std::fs::write(&csv, format!("b\n{}\n", "00".repeat((1 << 19) + 1))).unwrap();
    let told = basalt(&server, &[&schema[..], &[csv.to_str().unwrap()]].concat()).await.unwrap_err();
    assert!(told.contains("the limit is 524288"), "{told}");
    // More rows, and rows that are replaced by such a key.
    basalt(&server, &["load", "t", path.to_str().unwrap(), "--replace-by", "a b"]).await.unwrap();
    let again = basalt(&server, &["query", "SELECT * FROM t", "--format", "csv"]).await.unwrap();
    assert_eq!(again, ANSWER);
}

#[tokio::test]
async fn other_writers_tables_have_nested_columns_bytes_and_wide_decimals() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = at(&store).await;
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    for mode in ["none", "name", "id"] {
        // The names in the files: of columns and of fields of structs.
        let by_name = mode == "name";
        let named =
            |name: &str, physical: &str| if mode == "none" { name.to_owned() } else { physical.to_owned() };
        let inner = |name: &str, id: i32, array: &ArrayRef| {
            let metadata = [(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())];
            Field::new(name, array.data_type().clone(), true).with_metadata(metadata.into_iter().collect())
        };
        let fields = vec![
            inner(&named("k", "col-3"), 3, &longs),
            inner(&if mode == "id" { "other".to_owned() } else { named("s", "col-4") }, 4, &names),
        ];
        let nested: ArrayRef =
            Arc::new(StructArray::new(fields.into(), vec![Arc::clone(&longs), Arc::clone(&names)], None));
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(b"\x01".as_slice()), None]));
        let decimals: ArrayRef = wide().slice(0, 2);
        let mut theirs = Theirs::new(&folder.path().join(mode), if by_name { "name" } else { mode });
        let columns =
            [(named("n n", "col-1"), nested), (named("b", "col-5"), bytes), (named("d", "col-6"), decimals)];
        let columns: Vec<_> =
            columns.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))).collect();
        let file = theirs.add_with(&columns, &[1, 5, 6], json!({}));
        let column = |name: &str, data_type: serde_json::Value, physical: &str, id| match mode {
            "none" => plain(name, data_type),
            _ => mapped(name, data_type, physical, id),
        };
        let members = json!({"type": "struct", "fields": [
            column("s", json!("string"), "col-4", 4),
            column("k", json!("long"), "col-3", 3),
            column("later", json!("long"), "col-9", 9),
        ]});
        let columns = vec![
            column("n n", members, "col-1", 1),
            column("b", json!("binary"), "col-5", 5),
            column("d", json!("decimal(38,10)"), "col-6", 6),
        ];
        theirs.commit(&[theirs.metadata(columns, mode), file]);
        server.client.attach_table(mode, theirs.url()).await.unwrap();
        let query = format!("SELECT * FROM {mode}");
        let answer = basalt(&server, &["query", &query, "--format", "csv"]).await.unwrap();
        assert_eq!(
            answer,
            "n n,b,d\n\"{\"\"s\"\":\"\"x\"\",\"\"k\"\":7,\"\"later\"\":null}\",01,1000000000000000000000000000.0000000001\n\
             \"{\"\"s\"\":\"\"y\"\",\"\"k\"\":null,\"\"later\"\":null}\",,\n",
            "{mode}"
        );
        let schema = server.client.table(mode).await.unwrap().table.schema;
        assert_eq!(*schema.field(2).data_type(), DataType::Decimal128(38, 10));
    }
}

#[tokio::test]
async fn rows_come_from_standard_input() {
    let server = crate::support::Server::start().await;
    let load = |args: &'static [&str], text: &'static str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command
            .args(["load", "t", "-"])
            .args(args)
            .env("BASALT_SERVER", &server.address)
            .env("NO_COLOR", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            // What is refused at once is not read.
            let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
            let output = child.wait_with_output().unwrap();
            (output.status.success(), String::from_utf8(output.stderr).unwrap())
        })
    };
    let (done, told) = load(&["--format", "csv"], "a;b\n1;x\n2;y\n").await.unwrap();
    assert!(done && told.starts_with("note: standard input: ';' separates the fields"), "{told}");
    let (done, told) = load(&["--format", "json"], "[{\"a\":3,\"b\":\"z\"}]").await.unwrap();
    assert!(done && told.is_empty(), "{told}");
    let answer = basalt(&server, &["query", "SELECT * FROM t", "--format", "csv"]).await.unwrap();
    assert_eq!(answer, "a,b\n1,x\n2,y\n3,z\n");
    let (done, told) = load(&[], "a\n1\n").await.unwrap();
    assert!(!done && told.contains("use --format"), "{told}");
    let (done, told) = load(&["--format", "json"], "{\"a\":1}\n{\"a\":}\n").await.unwrap();
    assert!(!done && told.contains("standard input:2:6: expected value"), "{told}");
}
