//! Types of columns that clients were told before, and what they are sent then.

use super::client::*;

/// As knex and TypeORM have it, which look for the version in a column of that name.
#[tokio::test(flavor = "multi_thread")]
async fn columns_without_a_name_are_called_as_in_postgresql() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE named (a INT); INSERT INTO named VALUES (7)").await;
    for (sql, expected) in [
        ("SELECT version()", &[("version", 25)][..]),
        ("SELECT count(*), count(a), count(a) FROM named", &[("count", 20); 3]),
        ("SELECT a + 1, a, a::text FROM named", &[("?column?", 20), ("a", 23), ("a", 25)]),
        ("SELECT (SELECT max(a) FROM named), EXISTS (SELECT 1)", &[("max", 23), ("exists", 16)]),
        ("SELECT a, count(*) FROM named GROUP BY a UNION ALL SELECT 1, 2", &[("a", 20), ("count", 20)]),
        ("SELECT 1 AS a, 2 AS a", &[("a", 20); 2]),
        ("SELECT a, count(*) FROM named GROUP BY a ORDER BY count DESC", &[("a", 23), ("count", 20)]),
        // Tools look types up by numbers.
        ("SELECT oid, typname FROM pg_type WHERE typname = 'int4'", &[("oid", 23), ("typname", 25)]),
        ("SELECT attnum FROM pg_attribute WHERE attname = 'a'", &[("attnum", 23)]),
    ] {
        client.send(b'Q', &text(sql)).await;
        let answer = client.answer().await;
        let expected: Vec<_> = expected.iter().map(|(name, oid)| ((*name).to_owned(), *oid)).collect();
        assert_eq!(answer[0].0, b'T', "{sql}: {}", shown(&answer[0]));
        assert_eq!(columns(&answer[0].1), expected, "{sql}");
        // As a prepared statement is described.
        client.parse("", sql, &[]).await;
        client.send(b'D', b"S\0").await;
        client.send(b'S', &[]).await;
        let answer = client.answer().await;
        let described = answer.iter().find(|(tag, _)| *tag == b'T').unwrap();
        assert_eq!(columns(&described.1), expected, "{sql}");
    }
    client.query("CREATE TABLE made AS SELECT count(*) FROM named").await;
    client.send(b'Q', &text("SELECT count FROM made")).await;
    assert_eq!(columns(&client.answer().await[0].1), [("count".to_owned(), 20)]);
}

/// As JDBC has it: the columns of a portal are asked for once, and those of none that follows.
#[tokio::test(flavor = "multi_thread")]
async fn columns_of_a_portal_are_those_of_all_that_follow() {
    async fn run(client: &mut Client, format: u16, given: &[Option<&[u8]>], asks: bool) -> Vec<Message> {
        client.bind("", "s", format, given).await;
        if asks {
            client.send(b'D', b"P\0").await;
        }
        client.execute("", 0).await;
        client.send(b'S', &[]).await;
        client.answer().await
    }
    async fn made_again(client: &mut Client, of: &str) {
        client.query("DROP TABLE jd").await;
        client.query(&format!("CREATE TABLE jd (a {of})")).await;
        client.query("INSERT INTO jd VALUES (8)").await;
    }
    /// In binary form.
    fn number(text: &str) -> Vec<u8> {
        let fields: &[i16] = if text == "10" { &[1, 0, 0, 0, 10] } else { &[2, 0, 0, 1, 1, 5000] };
        fields.iter().flat_map(|field| field.to_be_bytes()).collect()
    }
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE jd (a INT); INSERT INTO jd VALUES (7)").await;
    client.parse("s", "SELECT a FROM jd ORDER BY a", &[]).await;
    let answer = run(&mut client, 1, &[], true).await;
    assert_eq!(columns(&answer[2].1), [("a".to_owned(), 23)]);
    made_again(&mut client, "BIGINT").await;
    let answer = run(&mut client, 1, &[], false).await;
    assert_eq!(values(&answer[1].1), [Some(8_i32.to_be_bytes().to_vec())]);
    client.query("INSERT INTO jd VALUES (9223372036854775807)").await;
    let answer = run(&mut client, 1, &[], false).await;
    let error = answer.iter().find(|(tag, _)| *tag == b'E').unwrap();
    let error = fields(&error.1);
    assert_eq!((error[&'C'].as_str(), error[&'R'].as_str()), ("0A000", "RevalidateCachedQuery"));
    // Who asks again is told what it is now.
    let answer = run(&mut client, 1, &[], true).await;
    assert_eq!(columns(&answer[1].1), [("a".to_owned(), 20)]);
    assert_eq!(values(&answer[2].1), [Some(8_i64.to_be_bytes().to_vec())]);

    client.send(b'C', b"Ss\0").await;
    client.parse("s", "SELECT coalesce($1, a) FROM jd WHERE a = 8", &[20]).await;
    let answer = run(&mut client, 1, &[Some(&5_i64.to_be_bytes())], true).await;
    assert_eq!(columns(&answer[3].1)[0].1, 20);
    made_again(&mut client, "INT").await;
    let answer = run(&mut client, 1, &[None], false).await;
    assert_eq!(values(&answer[1].1), [Some(8_i64.to_be_bytes().to_vec())]);

    // A number of type numeric is one without a fraction, too, as is what is made of it.
    for sql in ["SELECT $1", "SELECT 1 + $1"] {
        client.send(b'C', b"Ss\0").await;
        client.parse("s", sql, &[1700]).await;
        for (value, asks) in [("1.5", true), ("10", false), ("10", true)] {
            let answer = run(&mut client, 1, &[Some(&number(value))], asks).await;
            if let Some((_, body)) = answer.iter().find(|(tag, _)| *tag == b'T') {
                assert_eq!(columns(body)[0].1, 1700, "{sql} {value}");
            }
            let row = answer.iter().find(|(tag, _)| *tag == b'D').unwrap();
            let sent = values(&row.1)[0].clone().unwrap();
            let one_more: i16 = if value == "10" { 11 } else { 2 };
            match sql {
                "SELECT $1" => assert_eq!(sent, number(value)),
                // The first group of four digits stands behind four counts.
                _ => assert_eq!(sent[8..10], one_more.to_be_bytes(), "{value}"),
            }
        }
    }

    // NULL of no type is told as a boolean; other values of the same statement are what they are to who asks for them.
    client.send(b'C', b"Ss\0").await;
    client.parse("s", "SELECT $1", &[]).await;
    for value in [None, Some(&b"abc"[..]), None] {
        let answer = run(&mut client, 0, &[value], true).await;
        let row = answer.iter().find(|(tag, _)| *tag == b'D').unwrap();
        assert_eq!(values(&row.1), [value.map(<[u8]>::to_vec)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_for_a_parameter_leaves_the_types_of_columns() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE e (i INT, f REAL); INSERT INTO e VALUES (3, 1.5)").await;
    let (three, half) = (3_i64.to_be_bytes().to_vec(), 1.5_f64.to_be_bytes().to_vec());
    for (sql, oid, expected) in [
        ("SELECT coalesce($1, i) FROM e", 20, Some(&three)),
        ("SELECT nullif(i, $1) FROM e", 20, Some(&three)),
        ("SELECT greatest($1, i) FROM e", 20, Some(&three)),
        ("SELECT CASE WHEN i = 3 THEN i ELSE $1 END FROM e", 20, Some(&three)),
        ("SELECT coalesce(f, $1) FROM e", 701, Some(&half)),
        ("SELECT -$1", 701, None),
    ] {
        client.parse("", sql, &[]).await;
        client.send(b'D', b"S\0").await;
        client.send(b'S', &[]).await;
        let answer = client.answer().await;
        let described = answer.iter().find(|(tag, _)| *tag == b'T').unwrap();
        assert_eq!(columns(&described.1)[0].1, oid, "{sql}");
        // As pgx has it, which asks for the portal, and as asyncpg, which does not.
        for asks in [true, false] {
            client.bind("", "", 1, &[None]).await;
            if asks {
                client.send(b'D', b"P\0").await;
            }
            client.execute("", 0).await;
            client.send(b'S', &[]).await;
            let answer = client.answer().await;
            if asks {
                assert_eq!(columns(&answer[1].1)[0].1, oid, "{sql}");
            }
            let row = answer.iter().find(|(tag, _)| *tag == b'D').unwrap();
            assert_eq!(values(&row.1), [expected.cloned()], "{sql}");
        }
    }
}
