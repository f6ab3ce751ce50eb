//! `basalt load`: what takes the place of a table, which columns a name means, and what is left of a load that failed.

use std::path::Path;

use crate::{cli::basalt, support::Server};

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

async fn schema(server: &Server, table: &str) -> Vec<String> {
    let client = basalt_client::Client::connect(&server.address).await.unwrap();
    let table = client.table_summary(table).await.unwrap();
    let fields = table.schema.fields().iter();
    fields.map(|f| format!("{} {} {}", f.name(), f.data_type(), f.is_nullable())).collect()
}

#[tokio::test]
async fn a_file_without_rows_empties_the_table_and_changes_nothing_else() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let rows = file(folder.path(), "rows.csv", "id,name,price\n1,a,1.5\n2,b,2.5\n");
    let none = file(folder.path(), "none.csv", "id,name,price\n");
    let declared = "id int32 not null, name utf8 not null, price decimal(9,2)";
    basalt(&server, &["load", "t", &rows, "--schema", declared]).await.unwrap();
    let before = schema(&server, "t").await;
    basalt(&server, &["load", "t", &none, "--replace"]).await.unwrap();
    assert_eq!(schema(&server, "t").await, before);
    assert_eq!(server.rows("t").await, 0);
    // A null that was seen is another thing.
    let nulls = file(folder.path(), "nulls.csv", "id,name,price\n1,a,1.5\n,b,2.5\n");
    basalt(&server, &["load", "t", &nulls, "--replace"]).await.unwrap();
    assert_ne!(schema(&server, "t").await, before);
    assert_eq!(server.rows("t").await, 2);
}

#[tokio::test]
async fn names_of_columns_are_found_whatever_their_case() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let rows = file(folder.path(), "rows.csv", "ID,Name,x\n1,a,5\n2,b,6\n");
    // Columns that are found in the file keep its names.
    basalt(&server, &["load", "t", &rows, "--columns", "id,NAME"]).await.unwrap();
    assert_eq!(schema(&server, "t").await, ["ID Int32 false", "Name Utf8 false"]);
    for arguments in [
        &["--columns", "id,name", "--replace-by", "id"][..],
        &["--columns", "ID,nAME", "--replace-by", "Id,NAME"],
    ] {
        basalt(&server, &[&["load", "t", &rows][..], arguments].concat()).await.unwrap();
        assert_eq!(server.rows("t").await, 2, "{arguments:?}");
    }
    let two = file(folder.path(), "two.csv", "Aa,aA\n1,2\n");
    let declared = "\"Aa\" int64, \"aA\" int64";
    basalt(&server, &["load", "u", &two, "--schema", declared]).await.unwrap();
    for option in ["--columns", "--replace-by"] {
        let error = basalt(&server, &["load", "u", &two, option, "AA"]).await.unwrap_err();
        assert!(error.contains(&format!("{option}: column \"AA\" may be \"Aa\" or \"aA\"")), "{error}");
    }
    let error = basalt(&server, &["load", "t", &rows, "--columns", "nothing"]).await.unwrap_err();
    assert!(error.contains("no column is named \"nothing\""), "{error}");
}

#[tokio::test]
async fn a_number_that_is_too_large_is_not_infinity() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("f.csv", "f,r\n1,1\n1e400,1\n"), ("r.csv", "f,r\n1,1\n1,1e39\n")] {
        let path = file(folder.path(), name, text);
        let error =
            basalt(&server, &["load", "t", &path, "--schema", "f float64, r float32"]).await.unwrap_err();
        assert!(error.contains(&format!("{name}:3:")) && error.contains(" is not a float"), "{error}");
    }
    let json = file(folder.path(), "f.json", "{\"f\": 1}\n{\"f\": 1e400}\n");
    let error = basalt(&server, &["load", "t", &json, "--schema", "f float64"]).await.unwrap_err();
    assert!(error.contains("1e400"), "{error}");
    let said = file(folder.path(), "said.csv", "f\ninf\n-Infinity\nNaN\n");
    basalt(&server, &["load", "t", &said, "--schema", "f float64"]).await.unwrap();
    assert_eq!(server.rows("t").await, 3);
}
