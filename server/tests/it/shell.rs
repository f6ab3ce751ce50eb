//! `basalt sql` as scripts have it, and files that go out and come back in.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::{cli::basalt, support::Server};

/// What `basalt sql` says to a script on its standard input: its output and what it says beside, and whether it went well.
async fn script(server: &Server, folder: &Path, arguments: &[&str], text: &str) -> (String, String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.arg("sql").args(arguments).current_dir(folder);
    command.env("BASALT_SERVER", &server.address).env("NO_COLOR", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let text = text.to_owned();
    let done = move || {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(done).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr), status.success())
}

fn loaded(csv: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.csv"), csv).unwrap();
    let path = folder.path().join("t.csv").display().to_string();
    (folder, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_text_comes_back_as_one() {
    let server = Server::start().await;
    let csv = "id,word\n1,\"\"\n2,\n3,\"NULL\"\n4,x\n";
    let (folder, path) = loaded(csv);
    basalt(&server, &["load", "t", &path]).await.unwrap();
    let all = "SELECT * FROM t ORDER BY id";
    assert_eq!(basalt(&server, &["query", all, "-f", "csv"]).await.unwrap(), csv);
    for end in ["csv", "json", "parquet", "arrow"] {
        let file = folder.path().join(format!("out.{end}")).display().to_string();
        basalt(&server, &["query", all, "-o", &file]).await.unwrap();
        basalt(&server, &["load", &format!("of_{end}"), &file]).await.unwrap();
        let again = format!("SELECT * FROM of_{end} ORDER BY id");
        assert_eq!(basalt(&server, &["query", &again, "-f", "csv"]).await.unwrap(), csv, "{end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_go_both_ways() {
    if !cfg!(feature = "sql") {
        return;
    }
    let server = Server::start().await;
    let (folder, _) = loaded("ID,word\n1,\"\"\n2,\n3,\"a b\"\n");
    let folder = folder.path();
    let text = "CREATE TABLE \"T\" (id BIGINT NOT NULL, word TEXT);\n\
                \\timing off\n\
                \\copy t FROM 't.csv'\n\
                \\copy t (id) TO ids.parquet\n\
                \\copy (SELECT word, id FROM t\n";
    // A query that is not closed is an error, with its line.
    let (_, told, well) = script(&server, folder, &[], text).await;
    assert!(!well && told.contains("the command of line 5") && told.contains("parenthesis"), "{told}");

    let text = "\\timing off\n\
                -- a comment before a command\n\
                \\copy (SELECT word, id FROM t ORDER BY id) TO 'out.txt' (FORMAT csv)\n\
                \\copy t TO STDOUT\n\
                CREATE TABLE u (id BIGINT, word TEXT);\n\
                \\copy u FROM out.txt WITH (FORMAT csv, HEADER)\n\
                \\format csv\n\
                SELECT count(*) AS n, count(word) AS words FROM u;\n\
                SELECT 'a\n\\timing on\n' AS text";
    let (said, told, well) = script(&server, folder, &["--format", "csv"], text).await;
    assert!(well, "{told}");
    let copied = "ID,word\n1,\"\"\n2,\n3,a b\n".replace("ID", "id");
    assert!(said.starts_with(&copied), "{said}");
    assert!(said.ends_with("n,words\n3,2\ntext\n\"a\n\\timing on\n\"\n"), "{said}");
    assert!(
        told.contains("timing is off") && !told.contains("timing is on") && !told.contains(" ms"),
        "{told}"
    );
    assert_eq!(std::fs::read_to_string(folder.join("out.txt")).unwrap(), "word,id\n\"\",1\n,2\na b,3\n");
    assert!(folder.join("ids.parquet").exists());

    // By -c, from the standard input, and by a file that runs another.
    let command = ["-c", "\\copy u from stdin"];
    let (_, told, well) = script(&server, folder, &command, "word,id\nz,4\n").await;
    assert!(well, "{told}");
    std::fs::write(folder.join("inner.sql"), "\\copy u FROM t.csv\n").unwrap();
    std::fs::write(folder.join("outer.sql"), "\\i inner.sql\nSELECT count(*) AS n FROM u\n").unwrap();
    let (said, told, well) = script(&server, folder, &["-f", "outer.sql", "--format", "csv"], "").await;
    assert!(well && said.ends_with("n\n7\n"), "{said} {told}");
    std::fs::write(folder.join("inner.sql"), "\\i outer.sql\n").unwrap();
    let (_, told, well) = script(&server, folder, &["-f", "outer.sql"], "").await;
    assert!(!well && told.contains("more than 16 deep"), "{told}");

    for (line, expected) in [
        ("\\copy nowhere FROM t.csv", "takes rows into a table that is there"),
        ("\\copy u FROM stdin", "the standard input has the statements"),
        ("\\copy u FROM none.csv", "none.csv"),
        ("\\copy u TO out.xml", "the name of an output ends in"),
        ("\\copy (SELECT nothing FROM u) TO out.csv", "nothing"),
        ("\\cpoy u TO out.csv", "there is no \\cpoy"),
    ] {
        let (_, told, well) = script(&server, folder, &[], line).await;
        assert!(!well && told.contains(expected), "{line}: {told}");
    }
    assert!(!folder.join("out.csv").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_replaced_keeps_its_types_where_the_values_fit() {
    let files = tempfile::tempdir().unwrap();
    let server = Server::with(|config| config.store = files.path().join("store").display().to_string()).await;
    let path = files.path().join("t.csv").display().to_string();
    let replaced = async |csv: &str| {
        std::fs::write(&path, csv).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command.args(["load", "t", &path, "--replace"]).env("BASALT_SERVER", &server.address);
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let schema = async || {
        let table = server.client.table_summary("t").await.unwrap();
        let fields = table.schema.fields().iter();
        fields
            .map(|f| format!("{} {}", f.name(), basalt_client::type_name(f.data_type())))
            .collect::<Vec<_>>()
    };
    std::fs::write(&path, "id,price,word\n1,1.5,x\n").unwrap();
    let declared = "id int64, price decimal(9,2), word utf8";
    basalt(&server, &["load", "t", &path, "--schema", declared]).await.unwrap();
    let version = server.client.table_summary("t").await.unwrap().version;

    // Other inferred types, another order, other capitals: the same table, in one commit.
    let told = replaced("PRICE,word,Id\n2,7,3\n").await;
    assert!(
        told.contains("the table's own types stay: ") && told.contains("id int64 (the files alone: int32)"),
        "{told}"
    );
    assert!(told.contains("go when the new ones are committed"), "{told}");
    assert_eq!(schema().await, ["id int64", "price decimal(9,2)", "word utf8"]);
    assert_eq!(server.client.table_summary("t").await.unwrap().version, version + 1);

    // One value does not fit: its column alone has another type.
    let told = replaced("id,price,word\n4,2.125,\n").await;
    assert!(
        told.contains("column \"price\" is float64 now, for not all values are decimal(9,2) as before"),
        "{told}"
    );
    assert_eq!(schema().await, ["id int64", "price float64", "word utf8"]);
    assert_eq!(
        basalt(&server, &["query", "SELECT id, price FROM t", "-f", "csv"]).await.unwrap(),
        "id,price\n4,2.125\n"
    );
}
