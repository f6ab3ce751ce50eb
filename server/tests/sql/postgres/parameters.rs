//! The types of parameters that clients are told, and what then comes of values in them.

use super::client::*;

/// A statement of a client that names these types, asks for the others, and sends texts.
async fn ask(client: &mut Client, sql: &str, types: &[u32], given: &[&str]) -> Vec<String> {
    client.parse("", sql, types).await;
    client.send(b'D', b"S\0").await;
    let given: Vec<_> = given.iter().map(|value| Some(value.as_bytes())).collect();
    client.bind("", "", 0, &given).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    client.shown().await
}

/// The same, of which the types are told that the parameters have, and the rows.
async fn told(client: &mut Client, sql: &str, types: &[u32], given: &[&str]) -> (String, String) {
    let told = ask(client, sql, types, given).await;
    // Of what fails there is the error alone.
    let types = told.iter().find(|told| told.starts_with("t ")).cloned().unwrap_or_default();
    let rows: Vec<_> =
        told.into_iter().filter(|told| told.starts_with("D ") || told.starts_with("E ")).collect();
    (types, rows.join(" "))
}

async fn with_numbers() -> (Server, Client) {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client
        .query(
            "CREATE TABLE e (i INT, f DOUBLE, d DECIMAL(9, 2), s TEXT, b BOOLEAN, moment TIMESTAMP, born DATE); \
             INSERT INTO e VALUES (1, 2.5, 3.25, 'a', TRUE, '2024-01-01 00:00:00', '2024-01-01')",
        )
        .await;
    (server, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn arithmetic_and_functions_of_numbers_take_floats() {
    let (_server, mut client) = with_numbers().await;
    for (sql, given, types, rows) in [
        ("SELECT f * $1 FROM e", &["1.5"][..], "[701]", "3.75"),
        ("SELECT $1 + f FROM e", &["1.5"], "[701]", "4"),
        ("SELECT (d * $1)::double FROM e", &["1.5"], "[1700]", "4.875"),
        ("SELECT (d - $1)::double FROM e", &["0.001"], "[1700]", "3.249"),
        ("SELECT d / $1 FROM e", &["0.5"], "[1700]", "6.5"),
        ("SELECT i / $1 FROM e", &["0.5"], "[701]", "2"),
        ("SELECT $1 / $2", &["3", "2"], "[701, 701]", "1.5"),
        ("SELECT i + $1 FROM e", &["2"], "[20]", "3"),
        ("SELECT avg(f) * $1, sum(f * $2) FROM e", &["1.5", "0.5"], "[701, 701]", "3.75|1.25"),
        ("SELECT (sum(d) * $1)::double FROM e", &["1.5"], "[1700]", "4.875"),
        ("SELECT f * -$1 FROM e", &["1.5"], "[701]", "-3.75"),
        ("SELECT i FROM e WHERE f > $1 * d / $2", &["0.5", "1.5"], "[1700, 1700]", "1"),
        // In several places it has the values of all of them.
        ("SELECT f * $1, i * $1 FROM e", &["1.5"], "[701]", "3.75|1.5"),
        ("SELECT i FROM e WHERE i = $1 OR f = $1", &["2.5"], "[701]", "1"),
        ("SELECT born - $1 FROM e", &["2023-12-31"], "[1082]", "1"),
        // What lists have beside it.
        ("SELECT [$1, f][1] FROM e", &["1.5"], "[701]", "1.5"),
        ("SELECT [born, $1][2] FROM e", &["2023-12-31"], "[1082]", "2023-12-31"),
    ] {
        let expected = (format!("t {types}"), format!("D {rows}"));
        assert_eq!(told(&mut client, sql, &[], given).await, expected, "{sql}");
    }
    for (sql, given, types, rows) in [
        ("SELECT power(i + 3, $1), sqrt($2) FROM e", &["0.5", "6.25"][..], "[701, 701]", "2|2.5"),
        (
            "SELECT abs($1), floor($2), round($3, $4)",
            &["-1.5", "1.5", "1.26", "1"],
            "[701, 701, 701, 20]",
            "1.5|1|1.3",
        ),
        ("SELECT percentile_cont($1) WITHIN GROUP (ORDER BY f) FROM e", &["0.5"], "[701]", "2.5"),
        ("SELECT sum(f) FILTER (WHERE $1) FROM e", &["t"], "[16]", "2.5"),
        ("SELECT sum(g) FROM generate_series($1, $2) AS g", &["1", "3"], "[20, 20]", "6"),
        ("SELECT sum(g) FROM generate_series($1::int, 3) AS g", &["2"], "[23]", "5"),
        (
            "SELECT count(*) FROM generate_series($1::timestamptz, $2::timestamptz, '1 day') AS g",
            &["2024-01-01", "2024-01-03"],
            "[1184, 1184]",
            "3",
        ),
        ("SELECT make_interval(days => $1)::text", &["2"], "[20]", "2 days"),
    ] {
        let expected = (format!("t {types}"), format!("D {rows}"));
        assert_eq!(told(&mut client, sql, &[], given).await, expected, "{sql}");
    }
    assert_eq!(told(&mut client, "UPDATE e SET f = f * $1", &[], &["1.5"]).await.0, "t [701]");
    ask(&mut client, "INSERT INTO e (i, f) SELECT 9, f + $1 FROM e", &[], &["0.25"]).await;
    assert_eq!(client.query("SELECT f FROM e ORDER BY f").await[1..3], ["D 3.75", "D 4"]);
}

/// As psycopg has it: texts are of no type that it names, and numbers of the least that has them.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_not_named_stands_beside_numbers_that_are() {
    const INT2: u32 = 21;
    let (_server, mut client) = with_numbers().await;
    for (sql, types, given, rows) in [
        ("SELECT $1, i FROM e LIMIT $2", &[0, INT2][..], &["x", "2"][..], "x|1"),
        ("SELECT coalesce(s, $1), i + $2 FROM e", &[0, INT2], &["x", "2"], "a|3"),
        ("SELECT CASE WHEN b THEN s ELSE $1 END, i * $2 FROM e", &[0, INT2], &["x", "2"], "a|2"),
        ("SELECT upper($1), i - $2 FROM e", &[0, INT2], &["x", "2"], "X|-1"),
        ("SELECT date_trunc($1, moment)::date, i + $2 FROM e", &[0, INT2], &["year", "2"], "2024-01-01|3"),
        ("SELECT s || $1, born + $2 FROM e", &[0, INT2], &["x", "2"], "ax|2024-01-03"),
        ("SELECT $1, f * $2 FROM e", &[0, 701], &["x", "1.5"], "x|3.75"),
        ("SELECT $1, i FROM e WHERE b = $2 AND born = $3", &[0, 16, 1082], &["x", "t", "2024-01-01"], "x|1"),
        ("SELECT $1 FROM e WHERE moment >= $2", &[0, 1184], &["x", "2024-01-01 00:00:00+00"], "x"),
    ] {
        client.parse("", sql, types).await;
        let given: Vec<_> = given.iter().map(|value| Some(value.as_bytes())).collect();
        client.bind("", "", 0, &given).await;
        client.execute("", 0).await;
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await[2], format!("D {rows}"), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn places_tell_the_types_of_parameters() {
    let (_server, mut client) = with_numbers().await;
    for (sql, given, types, rows) in [
        ("SELECT $1, i FROM e LIMIT $2 OFFSET $3", &["x", "2", "0"][..], "[25, 20, 20]", "x|1"),
        (
            "SELECT i, (SELECT o.f FROM e o WHERE o.i = e.i ORDER BY o.f LIMIT $1) FROM e",
            &["1"],
            "[20]",
            "1|2.5",
        ),
        (
            "SELECT q.f FROM e, LATERAL (SELECT o.f FROM e o WHERE o.i = e.i ORDER BY o.f LIMIT $1 OFFSET $2) q",
            &["1", "0"],
            "[20, 20]",
            "2.5",
        ),
        ("SELECT i FROM e WHERE EXISTS (SELECT 1 FROM e o WHERE o.i = e.i LIMIT $1)", &["1"], "[20]", "1"),
        ("SELECT i FROM e WHERE $1", &["t"], "[16]", "1"),
        ("SELECT i FROM e WHERE NOT $1", &["f"], "[16]", "1"),
        ("SELECT i FROM e WHERE $1 AND $2", &["t", "t"], "[16, 16]", "1"),
        ("SELECT CASE WHEN $1 THEN i ELSE $2 END FROM e", &["f", "7"], "[16, 23]", "7"),
        ("SELECT CASE i WHEN $1 THEN 'one' END FROM e", &["1"], "[23]", "one"),
        ("SELECT nullif(i, $1), coalesce(i, $2) FROM e", &["5", "7"], "[23, 23]", "1|1"),
        ("SELECT greatest(i, $1), least(f, $2) FROM e", &["5", "1.5"], "[23, 701]", "5|1.5"),
        ("SELECT i FROM e WHERE $1 BETWEEN i AND 3 AND $2 IN (i, 9)", &["2", "9"], "[20, 20]", "1"),
        ("SELECT lag(i, $1, $2) OVER (ORDER BY i) FROM e", &["1", "5"], "[20, 23]", "5"),
        // Of rows each is told what stands beside it.
        ("SELECT i FROM e WHERE (moment, i) < ($1, $2)", &["2024-01-02 00:00:00+00", "1"], "[1184, 23]", "1"),
        ("SELECT i FROM e WHERE (born, i) >= ($1, $2)", &["2024-01-01", "1"], "[1082, 23]", "1"),
        ("SELECT i FROM e WHERE (d, s) IN (($1, $2))", &["3.25", "a"], "[1700, 25]", "1"),
        // The column is told as it comes: what is given is a bigint.
        ("SELECT i % $1 FROM e", &["2"], "[23]", "1"),
        // There is a plan for one of them as a number alone.
        ("SELECT $1, repeat('x', $2) FROM e", &["x", "2"], "[25, 20]", "x|xx"),
        ("SELECT upper($1), repeat('x', $2) FROM e", &["x", "2"], "[25, 20]", "X|xx"),
    ] {
        let expected = (format!("t {types}"), format!("D {rows}"));
        assert_eq!(told(&mut client, sql, &[], given).await, expected, "{sql}");
    }
}

/// As pg8000 asks for indexes: what has an answer of its own is not planned, nor is its parameter.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_have_no_place_in_a_plan_are_taken() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let sql =
        "SELECT unnest(i.indkey), generate_subscripts(i.indkey, $1::INTEGER) FROM pg_catalog.pg_index i";
    let (types, rows) = told(&mut client, sql, &[], &["1"]).await;
    assert!(types.starts_with("t [") && !types.contains(','), "{types}");
    assert_eq!(rows, "");
    assert_eq!(told(&mut client, sql, &[], &["1", "2"]).await.1, "E 08P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_tell_the_types_of_their_parameters() {
    let (_server, mut client) = with_numbers().await;
    let moments = "2023-12-31|1.5 D 2024-01-01|2.5";
    for (sql, given, types, rows) in [
        // The column is told as it comes: what is given is a bigint, and a double.
        ("SELECT i FROM e UNION ALL SELECT $1 ORDER BY 1", &["7"][..], "[20]", "1 D 7"),
        ("SELECT $1 UNION SELECT i FROM e ORDER BY 1", &["7"], "[20]", "1 D 7"),
        ("SELECT $1 AS a UNION ALL SELECT i FROM e ORDER BY a", &["7"], "[20]", "1 D 7"),
        ("SELECT f::real FROM e UNION ALL SELECT $1 ORDER BY 1", &["7.1"], "[701]", "2.5 D 7.1"),
        (
            "SELECT born, f FROM e UNION ALL SELECT $1, $2 ORDER BY 2",
            &["2023-12-31", "1.5"],
            "[1082, 701]",
            moments,
        ),
        ("SELECT born, f FROM e UNION ALL SELECT $1, 1.5 ORDER BY 2", &["2023-12-31"], "[1082]", moments),
        ("SELECT s FROM e UNION SELECT $1 ORDER BY 1", &["b"], "[25]", "a D b"),
        ("SELECT $1 AS a UNION ALL SELECT $2 ORDER BY 1", &["x", "y"], "[25, 25]", "x D y"),
        ("SELECT i FROM e INTERSECT SELECT $1", &["1"], "[20]", "1"),
        ("SELECT $1 INTERSECT SELECT i FROM e", &["1"], "[20]", "1"),
        ("SELECT $1 AS i INTERSECT SELECT i FROM e", &["1"], "[20]", "1"),
        ("SELECT $1 EXCEPT SELECT i FROM e", &["7"], "[20]", "7"),
        ("SELECT i, born FROM e EXCEPT SELECT $1, $2", &["7", "2024-01-01"], "[20, 1082]", "1|2024-01-01"),
        ("SELECT $1 EXCEPT SELECT $2", &["x", "y"], "[25, 25]", "x"),
        ("SELECT i FROM e EXCEPT ALL SELECT $1", &["7"], "[20]", "1"),
        ("SELECT $1 INTERSECT ALL SELECT i FROM e", &["1"], "[20]", "1"),
        (
            "SELECT i, born FROM e EXCEPT ALL SELECT $1, $2",
            &["7", "2024-01-01"],
            "[20, 1082]",
            "1|2024-01-01",
        ),
        // Of one value, as beside a column.
        ("SELECT i FROM e WHERE i IN (SELECT $1)", &["1"], "[23]", "1"),
        ("SELECT i FROM e WHERE born NOT IN (SELECT $1)", &["2023-12-31"], "[1082]", "1"),
        ("SELECT i FROM e WHERE i IN (SELECT $1 UNION SELECT $2)", &["1", "2"], "[23, 23]", "1"),
        ("SELECT i FROM e WHERE i = (SELECT $1)", &["1"], "[23]", "1"),
    ] {
        let expected = (format!("t {types}"), format!("D {rows}"));
        assert_eq!(told(&mut client, sql, &[], given).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_intervals_are_told_as_such() {
    const INTERVAL: u32 = 1186;
    let (_server, mut client) = with_numbers().await;
    for (sql, given, types, rows) in [
        ("SELECT i FROM e WHERE i = ANY($1)", &["{1,2}"][..], "[1007]", "1"),
        ("SELECT i FROM e WHERE i <> ALL($1) AND s = ANY($2)", &["{2}", "{a,b}"], "[1007, 1009]", "1"),
        ("SELECT i FROM e WHERE i = ANY($1::int[])", &["{1}"], "[1007]", "1"),
        ("SELECT i FROM e WHERE d = ANY($1::numeric[])", &["{3.250,7}"], "[1231]", "1"),
        ("SELECT i FROM e WHERE f = ANY($1) OR d = ANY($1)", &["{2.5}"], "[1022]", "1"),
        ("SELECT x FROM unnest($1::int[]) AS u(x)", &["{7}"], "[1007]", "7"),
        ("SELECT typname FROM pg_type WHERE oid = ANY($1::oid[])", &["{23}"], "[1028]", "int4"),
        ("SELECT (moment + $1)::date FROM e", &["1 day"], "[1186]", "2024-01-02"),
        ("SELECT (moment - $1::interval)::date FROM e", &["1 day"], "[1186]", "2023-12-31"),
        ("SELECT (moment + INTERVAL '1 day' * $1)::date FROM e", &["2"], "[20]", "2024-01-03"),
        ("SELECT greatest(INTERVAL '1 day', $1)::text", &["2 days"], "[1186]", "2 days"),
        ("SELECT least(moment - moment, INTERVAL '1 day', $1)::text FROM e", &["-1 day"], "[1186]", "-1 day"),
        ("SELECT i FROM e WHERE moment - moment < $1", &["1 day"], "[1186]", "1"),
        ("SELECT i FROM e WHERE moment - moment <> ALL($1)", &["{1 day}"], "[1187]", "1"),
        (
            "SELECT i FROM e WHERE INTERVAL '1 day' = ANY($1)",
            &[r#"{2 days,"1 day, 0:00:00"}"#],
            "[1187]",
            "1",
        ),
        (
            "SELECT i FROM e WHERE moment - moment BETWEEN $1 AND $2",
            &["0 days", "1 day"],
            "[1186, 1186]",
            "1",
        ),
    ] {
        let expected = (format!("t {types}"), format!("D {rows}"));
        assert_eq!(told(&mut client, sql, &[], given).await, expected, "{sql}");
    }
    let sql = "SELECT (moment + $1)::date FROM e";
    assert_eq!(told(&mut client, sql, &[INTERVAL], &["1 day, 0:00:00"]).await.1, "D 2024-01-02");
    // As drivers in binary form.
    let two: Vec<u8> = [1_i32, 0, 23, 2, 1, 4, 7, 4, 8].iter().flat_map(|int| int.to_be_bytes()).collect();
    let hours = [7_200_000_000_i64.to_be_bytes().as_slice(), &[0; 8]].concat();
    let spans = [1_i32, 1, 1186, 2, 1, 16].iter().flat_map(|int| int.to_be_bytes());
    let spans: Vec<u8> = spans.chain(hours.iter().copied()).chain((-1_i32).to_be_bytes()).collect();
    for (sql, value, rows) in [
        ("SELECT sum(x)::text FROM unnest($1::int[]) AS u(x)", &two, "D 15"),
        ("SELECT (INTERVAL '2 hours' = ANY($1))::text", &spans, "D true"),
        ("SELECT array_to_string($1::interval[], ',', '-')", &spans, "D 02:00:00,-"),
        ("SELECT extract(hour FROM moment + $1)::text FROM e", &hours, "D 2"),
    ] {
        client.parse("", sql, &[]).await;
        client.bind("", "", 1, &[Some(value.as_slice())]).await;
        client.execute("", 0).await;
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await[2], rows, "{sql}");
    }
    let arrays = "SELECT a.typname, a.typelem, a.typcategory FROM pg_type t JOIN pg_type a ON a.oid = t.typarray \
                  WHERE t.typname = 'int4'";
    assert_eq!(client.query(arrays).await[1], "D _int4|23|A");
    // What asyncpg asks first: SET of what changes nothing, and what types are, by its recursive query.
    let off = "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new";
    assert_eq!(client.query(off).await[1], "D off|off");
    let fields = "t.oid, t.typname, (CASE WHEN t.typtype = 'd' THEN (WITH RECURSIVE b(oid, depth) AS (SELECT \
        t2.typbasetype AS oid, 0 AS depth FROM pg_type t2 WHERE t2.oid = t.oid UNION ALL SELECT t2.typbasetype, b.depth + 1 \
        FROM pg_type t2, b WHERE b.oid = t2.oid AND t2.typbasetype != 0) SELECT oid FROM b ORDER BY depth DESC LIMIT 1) \
        ELSE NULL END) AS basetype, t.typelem";
    let types = format!(
        "WITH RECURSIVE tree(oid, name, basetype, elemtype, depth) AS (SELECT ti.*, 0 FROM (SELECT {fields} FROM \
         pg_catalog.pg_type AS t) AS ti WHERE ti.oid = any($1::oid[]) UNION ALL SELECT ti.*, tt.depth + 1 FROM (SELECT \
         {fields} FROM pg_catalog.pg_type AS t) ti, tree tt WHERE ti.oid = tt.elemtype OR (tt.basetype IS NOT NULL AND \
         ti.oid = tt.basetype)) SELECT name, basetype::regtype::text, depth::text FROM tree ORDER BY depth DESC"
    );
    let one: Vec<u8> = [1_i32, 0, 26, 1, 1, 4, 1007].iter().flat_map(|int| int.to_be_bytes()).collect();
    client.parse("", &types, &[]).await;
    client.bind("", "", 1, &[Some(one.as_slice())]).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await[2..4], ["D int4|NULL|1", "D _int4|NULL|0"]);
}

/// As JDBC and node-postgres have it, which send dates and times as texts that have a zone, and name no type.
#[tokio::test(flavor = "multi_thread")]
async fn dates_and_times_come_with_zones() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE days (day DATE, clock TIME)").await;
    for (sql, given) in [
        ("INSERT INTO days (day, clock) VALUES ($1, $2)", &["2024-02-29 +00", "01:02:03.000004+00"][..]),
        ("INSERT INTO days (day) VALUES ($1)", &["2024-02-29T09:00:00.000+09:00"]),
        ("INSERT INTO days (day) SELECT $1::date", &["2024-02-29 00:00:00Z"]),
    ] {
        let told = ask(&mut client, sql, &[], given).await;
        assert!(told.contains(&"C INSERT 0 1".to_owned()), "{sql} {told:?}");
    }
    for (sql, given, rows) in [
        ("SELECT count(*)::text FROM days WHERE day = $1", "2024-02-29 +05:30", "D 3"),
        ("SELECT day, clock FROM days WHERE clock = $1", "01:02:03.000004Z", "D 2024-02-29|01:02:03.000004"),
        ("SELECT ($1::timestamptz)::text", "2024-02-29 12:00:00.000 +02:00", "D 2024-02-29 10:00:00"),
        ("SELECT ($1::timestamptz)::text", "2024-02-29 12:00:00 UTC", "D 2024-02-29 12:00:00"),
    ] {
        assert_eq!(told(&mut client, sql, &[], &[given]).await.1, rows, "{sql}");
    }
    assert!(told(&mut client, "SELECT $1::date", &[], &["2024-02-29 noon"]).await.1.starts_with("E 22P02"));
}

/// What the planner takes as literals alone is not known where a statement is described.
#[tokio::test(flavor = "multi_thread")]
async fn zones_parts_and_frames_are_parameters() {
    let (_server, mut client) = with_numbers().await;
    for (sql, given, types, rows) in [
        (
            "SELECT (moment AT TIME ZONE $1)::text FROM e",
            &["Europe/Berlin"][..],
            "[25]",
            "2024-01-01 01:00:00",
        ),
        ("SELECT timezone($1::text, moment)::date FROM e", &["America/New_York"], "[25]", "2023-12-31"),
        (
            "SELECT date_trunc('day', moment AT TIME ZONE $1)::date, count(*)::text FROM e \
             GROUP BY date_trunc('day', moment AT TIME ZONE $1)",
            &["UTC"],
            "[25]",
            "2024-01-01|1",
        ),
        ("SELECT (moment - ($1 || ' days')::interval)::date FROM e", &["2"], "[25]", "2023-12-30"),
        ("SELECT date_part($1, moment) FROM e", &["year"], "[25]", "2024"),
        ("SELECT date_part($1, moment), i FROM e LIMIT $2", &["decade", "1"], "[25, 20]", "202|1"),
        (
            "SELECT (sum(i) OVER (ORDER BY i ROWS BETWEEN $1 PRECEDING AND $2 FOLLOWING))::text FROM e",
            &["1", "0"],
            "[20, 20]",
            "1",
        ),
        (
            "SELECT (sum(i) OVER (ORDER BY moment RANGE BETWEEN $1::interval PRECEDING AND CURRENT ROW))::text FROM e",
            &["1 day"],
            "[1186]",
            "1",
        ),
        (
            "SELECT i FROM e ORDER BY i OFFSET ($1) ROWS FETCH FIRST ($2::integer) ROWS ONLY",
            &["0", "1"],
            "[20, 23]",
            "1",
        ),
    ] {
        let expected = (format!("t {types}"), format!("D {rows}"));
        assert_eq!(told(&mut client, sql, &[], given).await, expected, "{sql}");
    }
    // A whole number that is named is one in a text too.
    let days = "SELECT (moment - ($1 || ' days')::interval)::date FROM e";
    assert_eq!(told(&mut client, days, &[23], &["2"]).await.1, "D 2023-12-30");
    let frame = "SELECT sum(i) OVER (ORDER BY i ROWS $1 PRECEDING) FROM e";
    assert_eq!(told(&mut client, frame, &[], &["-1"]).await.1, "E 42601");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_beyond_the_last_parameter_is_told_which_that_is() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    for (number, which) in [("65536", "$65535 is the last"), ("0", "$1 is the first")] {
        client.parse("", &format!("SELECT ${number}"), &[]).await;
        client.send(b'D', b"S\0").await;
        client.send(b'S', &[]).await;
        let answer = client.answer().await;
        let error = answer.iter().find(|(tag, _)| *tag == b'E').unwrap();
        assert!(fields(&error.1)[&'M'].contains(which), "{number}");
    }
}
