//! Lists as PostgreSQL's arrays, and intervals.

use super::client::*;

/// A row of one column that is told before it is asked for in this format: the number of its type, and its value.
async fn one(client: &mut Client, sql: &str, format: u16) -> (u32, Option<Vec<u8>>) {
    client.parse("", sql, &[]).await;
    client.send(b'D', b"S\0").await;
    client.bind("", "", format, &[]).await;
    client.send(b'D', b"P\0").await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    let answer = client.answer().await;
    let told = answer.iter().filter(|(tag, _)| *tag == b'T').map(|(_, body)| columns(body)[0].1);
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 2, "{sql} {:?}", answer.iter().map(shown).collect::<Vec<_>>());
    assert_eq!(told[0], told[1], "{sql}");
    let row = answer.iter().find(|(tag, _)| *tag == b'D').unwrap();
    (told[0], values(&row.1)[0].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_intervals_are_texts_as_postgresql_has_them() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    for (sql, oid, text) in [
        (
            r#"SELECT ARRAY['a b', NULL, 'NULL', 'null', '', 'c"d', 'e\f', '{g}', 'h,i', 'j']"#,
            1009,
            r#"{"a b",NULL,"NULL","null","","c\"d","e\\f","{g}","h,i",j}"#,
        ),
        ("SELECT ARRAY[1, NULL, 3]", 1016, "{1,NULL,3}"),
        ("SELECT '{1,2}'::int[]", 1007, "{1,2}"),
        ("SELECT [1::smallint]", 1005, "{1}"),
        ("SELECT [CAST(1.5 AS REAL)]", 1021, "{1.5}"),
        ("SELECT [CAST(0.5 AS DOUBLE PRECISION)]", 1022, "{0.5}"),
        ("SELECT [1.5, 2.25]", 1231, "{1.50,2.25}"),
        ("SELECT [true, false]", 1000, "{t,f}"),
        ("SELECT [DATE '2024-02-29']", 1182, "{2024-02-29}"),
        ("SELECT [TIMESTAMP '2024-02-29 01:02:03']", 1185, r#"{"2024-02-29 01:02:03+00"}"#),
        ("SELECT [TIME '01:02:03.5']", 1183, "{01:02:03.5}"),
        ("SELECT [CAST('a' AS BYTEA)]", 1001, r#"{"\\x61"}"#),
        ("SELECT [INTERVAL '1 day 2 hours']", 1187, r#"{"1 day 02:00:00"}"#),
        ("SELECT '{}'::int[]", 1007, "{}"),
        ("SELECT []", 1009, "{}"),
        ("SELECT ARRAY[NULL]", 1009, "{NULL}"),
        ("SELECT array_agg(x ORDER BY x DESC) FROM generate_series(1, 3) AS t(x)", 1016, "{3,2,1}"),
        ("SELECT string_to_array('a,b', ',')", 1009, "{a,b}"),
        ("SELECT coalesce(NULL::int[], '{1,2}')", 1007, "{1,2}"),
        ("SELECT cardinality(ARRAY[1, 2])", 20, "2"),
        ("SELECT array_ndims(ARRAY[1, 2])", 20, "1"),
        (
            "SELECT sum(b - a) FROM (VALUES (TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02')) v(a, b)",
            1186,
            "1 day",
        ),
        (
            "SELECT avg(i) FROM (VALUES (INTERVAL '1 month'), (INTERVAL '1 day')) v(i)",
            1186,
            "15 days 12:00:00",
        ),
        // What PostgreSQL has otherwise, or not, is text as SQL writes it.
        ("SELECT [[1], [2, 3]]", 25, "[[1], [2, 3]]"),
        ("SELECT [{'a': 1}]", 25, "[{'a': 1}]"),
        ("SELECT CAST(ARRAY[1, 2] AS TEXT)", 25, "[1, 2]"),
        ("SELECT INTERVAL '1 year 2 months 3 days 04:05:06.789'", 1186, "1 year 2 mons 3 days 04:05:06.789"),
        ("SELECT INTERVAL '-1 year -2 mons +3 days -04:05:06'", 1186, "-1 years -2 mons +3 days -04:05:06"),
        ("SELECT TIMESTAMP '2024-01-02 12:00:00' - TIMESTAMP '2024-01-01'", 1186, "1 day 12:00:00"),
        ("SELECT TIME '10:00' - TIME '09:00'", 1186, "01:00:00"),
        ("SELECT INTERVAL '0 days'", 1186, "00:00:00"),
    ] {
        let (told, value) = one(&mut client, sql, 0).await;
        assert_eq!((told, String::from_utf8(value.unwrap()).unwrap().as_str()), (oid, text), "{sql}");
    }
    assert_eq!(one(&mut client, "SELECT NULL::int[]", 0).await, (1007, None));
    assert_eq!(client.query("SELECT ARRAY[1, 2], INTERVAL '1 day'").await[1], "D {1,2}|1 day");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_intervals_in_binary_form() {
    fn ints(ints: &[i32]) -> Vec<u8> {
        ints.iter().flat_map(|int| int.to_be_bytes()).collect()
    }
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    // Dimensions, whether there is NULL, the type of the values; how many there are, and the place of the first.
    let numbers = ints(&[1, 1, 23, 3, 1, 4, 7, -1, 4, -8]);
    let texts = [&ints(&[1, 0, 25, 2, 1, 3])[..], b"a b", &ints(&[0])].concat();
    let interval = [&14_706_789_000_i64.to_be_bytes()[..], &ints(&[-3, 14])].concat();
    for (sql, oid, value) in [
        ("SELECT '{7,NULL,-8}'::int[]", 1007, numbers),
        ("SELECT ARRAY['a b', '']", 1009, texts),
        ("SELECT '{}'::int[]", 1007, ints(&[0, 0, 23])),
        ("SELECT INTERVAL '1 year 2 months -3 days 04:05:06.789'", 1186, interval),
    ] {
        assert_eq!(one(&mut client, sql, 1).await, (oid, Some(value)), "{sql}");
    }
    // What was sent is taken back.
    for (sql, value, text) in [
        ("SELECT $1::int[]", &ints(&[1, 1, 23, 2, 1, 4, 7, -1])[..], "{7,NULL}"),
        (
            "SELECT $1::text[]",
            br#"{"a b",NULL,"NULL","","c\"d","e\\f"}"#,
            r#"{"a b",NULL,"NULL","","c\"d","e\\f"}"#,
        ),
        ("SELECT $1::interval", b"-1 years -2 mons +3 days -04:05:06", "-1 years -2 mons +3 days -04:05:06"),
    ] {
        let format = u16::from(value[0] == 0);
        client.parse("", sql, &[]).await;
        let head = [1_u16, format, 1].map(u16::to_be_bytes).concat();
        let length = u32::try_from(value.len()).unwrap().to_be_bytes();
        // The parameter in its form, the answer in text.
        let body = [&b"\0\0"[..], &head, &length, value, &0_u16.to_be_bytes()].concat();
        client.send(b'B', &body).await;
        client.execute("", 0).await;
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await[2], format!("D {text}"), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_copied_and_told_of_views() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let rows = "(SELECT ARRAY['a b', 'c\\d', NULL] AS l, INTERVAL '1 day' AS i)";
    for (form, expected) in [
        ("", "{\"a b\",\"c\\\\\\\\d\",NULL}\t1 day\n"),
        (" (FORMAT csv)", "\"{\"\"a b\"\",\"\"c\\\\d\"\",NULL}\",1 day\n"),
    ] {
        client.send(b'Q', &text(&format!("COPY {rows} TO STDOUT{form}"))).await;
        let answer = client.answer().await;
        let row = answer.iter().find(|(tag, _)| *tag == b'd').unwrap();
        assert_eq!(String::from_utf8_lossy(&row.1), expected);
    }
    let view =
        "CREATE VIEW v AS SELECT ARRAY[1, 2] AS l, ARRAY[1.5, 2.25] AS d, INTERVAL '1 day' AS i, [[1]] AS n";
    client.query(view).await;
    let told = "SELECT column_name, data_type, udt_name FROM information_schema.columns WHERE table_name = 'v' \
                ORDER BY ordinal_position";
    assert_eq!(
        client.query(told).await[1..5],
        ["D l|ARRAY|_int8", "D d|ARRAY|_numeric", "D i|interval|interval", "D n|text|text"]
    );
    let told = "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a \
                WHERE a.attrelid = 'v'::regclass ORDER BY a.attnum";
    assert_eq!(
        client.query(told).await[1..5],
        ["D l|bigint[]", "D d|numeric(3,2)[]", "D i|interval", "D n|text"]
    );
    let arrays = "SELECT a.oid::text, a.typname FROM pg_type t JOIN pg_type a ON a.oid = t.typarray \
                  WHERE t.typname IN ('bytea', 'time', 'interval') ORDER BY 2";
    assert_eq!(client.query(arrays).await[1..4], ["D 1001|_bytea", "D 1187|_interval", "D 1183|_time"]);
}

/// As asyncpg asks what lists are: lists of numbers in what answers that it would ask for first, and so on.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_types_are_told_as_such() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let sql = "SELECT array_agg(oid), CAST(NULL AS BIGINT[]) FROM pg_type WHERE oid = ANY($1::oid[])";
    client.parse("", sql, &[]).await;
    client.send(b'D', b"S\0").await;
    let one: Vec<u8> = [1_i32, 0, 26, 1, 1, 4, 23].iter().flat_map(|int| int.to_be_bytes()).collect();
    client.bind("", "", 1, &[Some(one.as_slice())]).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    let answer = client.answer().await;
    let told = answer.iter().find(|(tag, _)| *tag == b'T').unwrap();
    assert_eq!(columns(&told.1).iter().map(|(_, oid)| *oid).collect::<Vec<_>>(), [1028, 1028]);
    let row = answer.iter().find(|(tag, _)| *tag == b'D').unwrap();
    assert_eq!(values(&row.1), [Some(one), None]);
}
