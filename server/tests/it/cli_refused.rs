//! What the commands refuse, with the place and exit code 1; and that they print every value.

use std::path::Path;

use crate::{cli::basalt, support::Server};

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn addresses_of_other_protocols() {
    let (mut server, files) = (Server::start().await, tempfile::tempdir().unwrap());
    let csv = file(files.path(), "t.csv", "a\n1\n");
    let plain = server.address.clone();
    assert!(basalt(&server, &["tables"]).await.is_ok());
    for scheme in ["https", "HTTPS", "grpc", "grpcs", "unix"] {
        server.address = plain.replace("http://", &format!("{scheme}://"));
        let elsewhere = server.address.clone();
        // The server has no TLS, and says so in TLS.
        let why = if scheme.eq_ignore_ascii_case("https") { "ProtocolVersion" } else { "is not a scheme" };
        for command in [
            vec!["tables"],
            vec!["health"],
            vec!["cluster", "status"],
            vec!["query", "SELECT a FROM t"],
            vec!["load", "t", csv.as_str()],
            vec!["bench", "--duration", "100ms"],
            vec!["tables", "--server", elsewhere.as_str()],
        ] {
            let told = basalt(&server, &command).await.unwrap_err();
            assert!(told.starts_with("error: ") && told.contains(why), "{scheme} {command:?}: {told}");
        }
        server.address.clone_from(&plain);
        let told =
            basalt(&server, &["bench", "--duration", "100ms", "--address", &elsewhere]).await.unwrap_err();
        assert!(told.contains(why), "{told}");
    }
    // Nothing was sent.
    assert_eq!(
        basalt(&server, &["tables"]).await.unwrap(),
        "no tables yet: `basalt load TABLE FILE` makes one\n"
    );
}

#[tokio::test]
async fn quotes_that_are_left_open() {
    let (server, files) = (Server::start().await, tempfile::tempdir().unwrap());
    let whole: String = (0..100_000).map(|row| format!("{row},\"text, {row}\"\n")).collect();
    let cut = format!("a,b\n{whole}100000,\"abc\n2,def\n");
    let cut = file(files.path(), "cut.csv", &cut);
    let behind = file(files.path(), "behind.csv", "a,b\n1,\"x\"y\n");
    for (path, place) in
        [(&cut, ":100002:b: the quote that opens here"), (&behind, ":2:b: \"y\" stands behind")]
    {
        let options: [&[&str]; 3] = [&[], &["--skip-bad", "5"], &["--schema", "a int64, b utf8"]];
        for options in options {
            let load = [&["load", "t", path.as_str()], options].concat();
            let told = basalt(&server, &load).await.unwrap_err();
            assert!(told.starts_with(&format!("error: {path}{place}")), "{told}");
        }
    }
    assert!(basalt(&server, &["tables"]).await.unwrap().starts_with("no tables yet"));
}

#[tokio::test]
async fn names_and_groups() {
    let (server, files) = (Server::start().await, tempfile::tempdir().unwrap());
    let csv = file(files.path(), "t.csv", "a,b\n1,10\n1,20\n2,10\n");
    basalt(&server, &["load", "t", &csv]).await.unwrap();
    let ask = async |sql: &str| basalt(&server, &["query", sql, "-f", "csv"]).await;
    let groups = "SELECT max(a) AS b, count(*) AS n FROM t GROUP BY b ORDER BY n";
    assert_eq!(ask(groups).await.unwrap(), "b,n\n1,1\n2,2\n");
    assert!(basalt(&server, &["explain", groups]).await.unwrap().contains("group by b\n"));
    let order = "SELECT a, 0 - b AS b FROM t ORDER BY b * 2, a";
    assert_eq!(ask(order).await.unwrap(), "a,b\n1,-10\n2,-10\n1,-20\n");
    let swapped = "SELECT b AS a, a AS b FROM t ORDER BY a, b";
    assert_eq!(ask(swapped).await.unwrap(), "a,b\n10,1\n10,2\n20,1\n");
    let hidden = "SELECT a AS b FROM t ORDER BY t.b DESC, b";
    assert_eq!(ask(hidden).await.unwrap(), "b\n1\n1\n2\n");
    let position = "SELECT a AS b, b FROM t ORDER BY 2 DESC, 1";
    let names = if cfg!(feature = "sql") { "b,b:2" } else { "b,b" };
    assert_eq!(ask(position).await.unwrap(), format!("{names}\n1,20\n1,10\n2,10\n"));
    for (sql, place) in [
        ("SELECT DISTINCT a, count(*) FROM t", "(line 1, column 17)"),
        ("SELECT a FROM t ORDER BY 'a'", "(line 1, column 26)"),
    ] {
        let told = ask(sql).await.unwrap_err();
        assert!(told.contains(place) && told.contains("^"), "{told}");
    }
    assert!(ask("SELECT FROM t").await.unwrap_err().contains("the select list is empty"));
    let told = ask("SELECT a AS x FROM nothing GROUP BY x").await.unwrap_err();
    assert!(told.contains("TABLE_NOT_FOUND"), "{told}");
}
