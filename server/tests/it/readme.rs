//! The Rust of README.md compiles as it stands there, and its second part runs.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use crate::support::Server;

#[rustfmt::skip]
mod as_written {
    use basalt_client::Result;

    pub(super) async fn asks() -> Result<basalt_client::QueryResult> {
use basalt_client::{Client, avg, col, count};

let client = Client::connect("http://127.0.0.1:7700").await?;
let result = client
    .query("flights")
    .select([col("carrier"), count().alias("n"), avg(col("arr_delay")).alias("late")])
    .filter(col("dep_delay").gt(60).and(col("origin").is_in(["JFK", "LGA"])))
    .group_by([col("carrier")])
    .order_by([col("late").desc()])
    .collect()
    .await?;                                    // Arrow record batches
        Ok(result)
    }

    pub(super) async fn sets(client: &basalt_client::Client) -> Result<[u64; 3]> {
        use basalt_client::{col, count};

use basalt_client::keys_of;

let late = client.query("flights").filter(col("dep_delay").gt(60)).select_rows().await?;
let of_them = client.query("flights").select([count()]).rows(&late).collect().await?;
let years = client.query("planes").filter(col("engines").gt(2)).select_keys("year").await?;
let same_age = client.query("planes").filter(col("year").in_keys(&years)).collect().await?;
let old = keys_of("planes", "tailnum").filter(col("year").lt(1980));
let on_others = client.query("flights").filter(!col("tailnum").in_keys(old)).collect().await?;
assert!(years.sip()?.contains(1990));           // the ids, on this side
        Ok([of_them.rows, same_age.rows, on_others.rows])
    }
}

#[test]
fn it_is_what_the_readme_shows() {
    let readme = include_str!("../../../README.md");
    let here = include_str!("readme.rs");
    let snippets: Vec<&str> =
        readme.split("```rust\n").skip(1).filter_map(|s| s.split("```").next()).collect();
    assert_eq!(snippets.len(), 2);
    for snippet in snippets {
        assert!(here.contains(snippet), "README.md shows other code:\n{snippet}");
    }
}

#[tokio::test]
async fn it_runs() {
    let server = Server::start().await;
    let ints = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let texts = |values: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let tables = [
        ("flights", vec![("tailnum", texts(vec!["a", "b", "a"])), ("dep_delay", ints(vec![61, 60, 70]))]),
        (
            "planes",
            vec![
                ("tailnum", texts(vec!["a", "b", "c"])),
                ("year", ints(vec![1990, 1970, 1990])),
                ("engines", ints(vec![4, 2, 2])),
            ],
        ),
    ];
    for (name, columns) in tables {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let field =
            |f: &Arc<Field>| Field::new(f.name(), f.data_type().clone(), *f.data_type() == DataType::Utf8);
        let schema = Schema::new(rows.schema().fields().iter().map(field).collect::<Vec<_>>());
        server.client.create_table(name, &schema).await.unwrap();
        server.client.write_all(name, &[rows]).await.unwrap();
    }
    assert_eq!(as_written::sets(&server.client).await.unwrap(), [1, 2, 2]);
    // The first part names a port that another server may have.
    let _ = as_written::asks;
}
