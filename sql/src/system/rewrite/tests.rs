use super::*;

fn rewritten(sql: &str) -> String {
    let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
    rewrite(&mut statements[0], &["flights", "pg_own", "pg_class"].map(str::to_owned)).unwrap();
    statements[0].to_string()
}

#[test]
fn statements_over_tables_stay_as_they_are() {
    for sql in [
        "SELECT a.b, count(*) FROM flights AS a WHERE a.c = 'x' GROUP BY a.b",
        "SELECT CAST(a AS BIGINT), a::TEXT FROM flights WHERE a = ANY(SELECT b FROM other)",
        "SELECT (SELECT b FROM other WHERE other.a = flights.a) FROM flights",
        "SELECT * FROM pg_own",
    ] {
        assert_eq!(rewritten(sql), sql);
    }
    assert_eq!(rewritten("SELECT a FROM public.pg_class"), "SELECT a FROM pg_class");
    assert!(rewritten("SELECT a FROM PG_CLASS").contains("\"pg_catalog.pg_class\""));
}

#[test]
fn names_lose_their_schema() {
    assert_eq!(rewritten("SELECT public.flights.a FROM public.flights"), "SELECT flights.a FROM flights");
    assert_eq!(
        rewritten("SELECT pg_catalog.pg_class.relname, pg_catalog.version() FROM pg_catalog.pg_class"),
        "SELECT pg_class.relname, version() FROM \"pg_catalog.pg_class\" AS \"pg_class\""
    );
    assert_eq!(
        rewritten(
            "SELECT 1 FROM information_schema.TABLES t WHERE a OPERATOR(pg_catalog.~) 'x' COLLATE pg_catalog.default"
        ),
        "SELECT 1 FROM \"information_schema.tables\" t WHERE a ~ 'x'"
    );
    assert_eq!(rewritten("INSERT INTO public.t (a) VALUES (1)"), "INSERT INTO t (a) VALUES (1)");
    assert_eq!(rewritten("SELECT main.flights.a FROM main.flights"), "SELECT flights.a FROM flights");
    assert_eq!(rewritten("CREATE TABLE basalt.public.t (a INT)"), "CREATE TABLE t (a INT)");
    assert_eq!(rewritten("SELECT a = ANY (ARRAY['r', 'p'])"), "SELECT a IN ('r', 'p')");
}

#[test]
fn what_with_names_is_meant_before_a_virtual_table() {
    assert_eq!(
        rewritten("WITH pg_class AS (SELECT a FROM PG_CLASS) SELECT pg_class.a FROM pg_class"),
        "WITH \"basalt_with_1\" AS (SELECT a FROM \"pg_catalog.pg_class\" AS \"pg_class\") \
         SELECT pg_class.a FROM \"basalt_with_1\" AS pg_class"
    );
    assert_eq!(
        rewritten("WITH RECURSIVE pg_index(a) AS (SELECT a FROM pg_index) SELECT a FROM x, pg_index i"),
        "WITH RECURSIVE \"basalt_with_1\" (a) AS (SELECT a FROM \"basalt_with_1\" AS pg_index) \
         SELECT a FROM x, \"basalt_with_1\" i"
    );
    let after = rewritten("SELECT (WITH pg_type AS (SELECT 1) SELECT 2 FROM pg_type) FROM pg_type");
    assert!(after.ends_with("FROM \"pg_catalog.pg_type\" AS \"pg_type\""), "{after}");
    assert!(after.contains("SELECT 2 FROM \"basalt_with_1\" AS pg_type"), "{after}");
    let with_schema = rewritten("WITH pg_class AS (SELECT 1) SELECT 2 FROM pg_catalog.pg_class");
    assert!(with_schema.contains("\"pg_catalog.pg_class\""), "{with_schema}");
    let others = "WITH x AS (SELECT 1 AS a) SELECT a FROM x";
    assert_eq!(rewritten(others), others);
}

#[test]
fn what_with_names_anew_is_meant_before_what_one_around_it_names() {
    assert_eq!(
        rewritten("WITH a AS (SELECT 1) SELECT 2 FROM (WITH A AS (SELECT 3 FROM a) SELECT 4 FROM A) q, a"),
        "WITH a AS (SELECT 1) SELECT 2 FROM \
         (WITH \"basalt_with_1\" AS (SELECT 3 FROM a) SELECT 4 FROM \"basalt_with_1\" AS A) q, a"
    );
    // Names that a view's text has already are none to make.
    assert_eq!(
        rewritten(
            "WITH a AS (SELECT 1) SELECT 2 FROM (WITH a AS (SELECT 3) SELECT 4 FROM (WITH basalt_with_1 AS (SELECT 5) SELECT 6 FROM basalt_with_1) q) q"
        ),
        "WITH a AS (SELECT 1) SELECT 2 FROM (WITH \"basalt_with_1\" AS (SELECT 3) SELECT 4 FROM \
         (WITH \"basalt_with_2\" AS (SELECT 5) SELECT 6 FROM \"basalt_with_2\" AS basalt_with_1) q) q"
    );
    for others in [
        "WITH a AS (WITH a AS (SELECT 1) SELECT 2 FROM a) SELECT 3 FROM a",
        "SELECT (WITH a AS (SELECT 1) SELECT 2 FROM a), (WITH a AS (SELECT 3) SELECT 4 FROM a)",
    ] {
        assert_eq!(rewritten(others), others);
    }
}

#[test]
fn casts_of_names_are_numbers_and_texts() {
    assert_eq!(rewritten("SELECT 'pg_class'::regclass"), "SELECT regclass_name(1259)");
    assert_eq!(
        rewritten("SELECT 'pg_class'::regclass AS a, 2 = 'pg_class'::regclass"),
        "SELECT regclass_name(1259) AS a, 2 = 1259"
    );
    assert_eq!(rewritten("SELECT (SELECT 'pg_class'::regclass)"), "SELECT (SELECT 1259)");
    assert_eq!(rewritten("SELECT '17'::pg_catalog.regclass::oid"), "SELECT 17::BIGINT");
    assert_eq!(rewritten("SELECT 'pg_class'::regclass::text"), "SELECT 'pg_class'");
    assert_eq!(rewritten("SELECT c.oid::regclass"), "SELECT regclass_name(c.oid)");
    assert_eq!(rewritten("SELECT '\"pg_catalog\" . \"pg_class\"'::regclass"), "SELECT regclass_name(1259)");
    assert_eq!(rewritten("SELECT $1::regclass"), "SELECT to_regclass(CAST($1 AS TEXT))");
    assert_eq!(
        rewritten("SELECT a::pg_catalog.regtype::pg_catalog.text"),
        "SELECT basalt_type_name(a)::TEXT"
    );
    assert_eq!(rewritten("SELECT ('pg_class')::regclass"), "SELECT regclass_name(1259)");
    let both = "SELECT regclass_name(to_regclass(CAST(a || b AS TEXT)))";
    assert_eq!(rewritten("SELECT (a || b)::regclass::text").replace("(a || b)", "a || b"), both);
    assert_eq!(rewritten("SELECT c.oid::regclass::oid"), "SELECT to_regclass(CAST(c.oid AS TEXT))");
    assert_eq!(rewritten("SELECT 'int8'::regtype, ('_text')::regtype"), "SELECT 'bigint', 'text[]'");
    assert_eq!(rewritten("SELECT 'int8'::regtype::oid, 'hstore'::regtype::int"), "SELECT 20, NULL");
    assert_eq!(rewritten("SELECT a = 'int8'::regtype, to_regtype('int4') <> 3"), "SELECT a = 20, 23 <> 3");
    assert_eq!(
        rewritten("SELECT a IN ('int8'::regtype, b::regtype)"),
        "SELECT a IN (20, basalt_type_number(CAST(b AS TEXT)))"
    );
    for texts in ["'bigint'", "pg_typeof(b)", "b::TEXT"] {
        let sql = format!("SELECT {texts} = 'int8'::regtype");
        assert_eq!(rewritten(&sql), format!("SELECT {texts} = 'bigint'"));
    }
}

#[test]
fn what_is_always_empty_has_no_rows() {
    assert_eq!(
        rewritten(
            "SELECT i.a, b AS c, array(select 1) FROM pg_index i, pg_class WHERE d = ANY(i.indkey) ORDER BY b"
        ),
        "SELECT NULL AS \"a\", NULL AS \"c\", NULL AS \"array\" WHERE false"
    );
    let outer = "SELECT relname FROM pg_class LEFT JOIN pg_index ON true";
    assert!(rewritten(outer).contains("\"pg_catalog.pg_index\""));
    assert!(rewritten("SELECT count(*) FROM pg_index").contains("count(*)"));
    let twice = "SELECT f(a), pg_catalog.f(b), array(select a from pg_catalog.unnest(x) a) FROM pg_index";
    assert_eq!(
        rewritten(twice),
        "SELECT NULL AS \"f\", NULL AS \"?column?1\", NULL AS \"array\" WHERE false"
    );
    let inner = "SELECT (SELECT string_agg(a, b) FROM pg_catalog.generate_series(0, 1)) FROM pg_publication";
    assert_eq!(rewritten(inner), "SELECT NULL AS \"?column?0\" WHERE false");
    let list = "SELECT a || array(SELECT x FROM pg_catalog.unnest(b) x) FROM pg_class";
    assert_eq!(rewritten(list), "SELECT a || NULL FROM \"pg_catalog.pg_class\" AS \"pg_class\"");
    assert_eq!(rewritten("SELECT (SELECT adbin FROM pg_attrdef d WHERE d.adrelid = a)"), "SELECT NULL");
    assert_eq!(
        rewritten("SELECT (SELECT t.typname FROM pg_type t WHERE t.oid = a)"),
        "SELECT (SELECT max(t.typname) FROM \"pg_catalog.pg_type\" t WHERE t.oid = a)"
    );
}

#[test]
fn patterns_are_escaped_as_here() {
    let of = |pattern: &str| rewritten(&format!("SELECT a LIKE {pattern} ESCAPE '/'"));
    let told = "SELECT a LIKE replace(replace(replace(replace('pg/_', '\\', '\\\\'), '//', '\u{1}'), '/', '\\'), '\u{1}', '/')";
    assert_eq!(of("'pg/_'"), told);
    assert_eq!(rewritten("SELECT a LIKE b"), "SELECT a LIKE b");
}

#[test]
fn dbeaver_asks_for_a_column_twice() {
    let told =
        rewritten("SELECT c.oid, c.*, d.description FROM pg_class c LEFT JOIN pg_description d ON true");
    assert!(told.starts_with("SELECT c.*, d.description FROM"), "{told}");
    assert_eq!(rewritten("SELECT f.a, f.* FROM flights AS f"), "SELECT f.a, f.* FROM flights AS f");
}

#[test]
fn jdbc_asks_for_schemas() {
    assert_eq!(rewritten("SELECT (pg_catalog.current_schemas(true))[1]"), "SELECT 'pg_catalog'");
    assert_eq!(rewritten("SELECT a = ANY (current_schemas(false))"), "SELECT a IN ('public')");
    assert_eq!(
        rewritten("SELECT array_length(current_schemas(true), 1), current_schemas(false)"),
        "SELECT array_length(ARRAY['pg_catalog', 'public'], 1), '{public}'"
    );
    assert_eq!(
        rewritten("SELECT s FROM UNNEST(current_schemas(true)) AS s"),
        "SELECT s FROM UNNEST(ARRAY['pg_catalog', 'public']) AS s"
    );
    let searched = "SELECT 1 FROM (SELECT array_upper(current_schemas(false), 1)) AS sp";
    assert!(rewritten(searched).contains("nspname = 'public'"), "{}", rewritten(searched));
}

#[test]
fn grafana_asks_for_columns() {
    let sql = "SELECT CASE WHEN array_length(parse_ident('a.B'),1) = 2 THEN s = (parse_ident('a.B'))[1] END";
    assert_eq!(rewritten(sql), "SELECT CASE WHEN 2 = 2 THEN s = 'a' END");
}
