//! Functions by the names that DuckDB, PostgreSQL and MySQL have for them, in the words of the planner's own.

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meant {
    /// Another name.
    Name(&'static str),
    /// Another name, of values that are not null.
    NonNull(&'static str),
    /// An expression over the arguments.
    Template(&'static str),
}

/// Names that are others, for any number of arguments.
const NAMES: [(&str, &str); 41] = [
    ("approx_count_distinct", "approx_distinct"),
    ("approx_quantile", "approx_percentile_cont"),
    ("ceiling", "ceil"),
    ("date_diff", "basalt_date_diff"),
    ("date_sub", "basalt_date_sub"),
    ("datediff", "basalt_date_diff"),
    ("datesub", "basalt_date_sub"),
    ("editdist3", "levenshtein"),
    ("every", "bool_and"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("get_current_timestamp", "now"),
    ("ifnull", "coalesce"),
    ("last", "last_value"),
    ("lcase", "lower"),
    ("list", "array_agg"),
    ("list_value", "make_array"),
    ("list_pack", "make_array"),
    ("array_value", "make_array"),
    ("list_append", "array_append"),
    ("array_push_back", "array_append"),
    ("list_prepend", "array_prepend"),
    ("array_push_front", "array_prepend"),
    ("struct_extract", "get_field"),
    ("row", "struct"),
    ("datetrunc", "date_trunc"),
    ("datepart", "date_part"),
    ("listagg", "string_agg"),
    ("nvl", "coalesce"),
    ("ord", "ascii"),
    ("prefix", "starts_with"),
    ("sign", "signum"),
    ("stdev", "stddev"),
    ("strlen", "octet_length"),
    ("suffix", "ends_with"),
    ("transaction_timestamp", "now"),
    ("statement_timestamp", "now"),
    ("clock_timestamp", "now"),
    ("ucase", "upper"),
    ("variance", "var_samp"),
    ("regexp_matches", "regexp_like"),
];

/// A row for each value of an array of JSON.
const ELEMENTS: &str = "unnest(basalt_json_elements($1))";
const ELEMENT_TEXTS: &str = "unnest(basalt_json_texts($1))";

/// Halves are rounded to the even neighbour.
const ROUND_EVEN: &str = "CASE (abs($1) * power(CAST(10 AS DOUBLE), $2 + 1)) % 10 WHEN 5 THEN round($1 / 2, $2) * 2 ELSE round($1, $2) END";

/// What has no weight at all has no average.
const WEIGHTED: &str = "CASE sum(CAST($2 AS DOUBLE)) FILTER (WHERE $1 IS NOT NULL) WHEN 0 THEN CAST('nan' AS DOUBLE) ELSE sum(CAST($1 AS DOUBLE) * CAST($2 AS DOUBLE)) / sum(CAST($2 AS DOUBLE)) FILTER (WHERE $1 IS NOT NULL) END";

/// DataFusion's own gives a list with NULL for a key that is not there.
const MAP_EXTRACT: &str =
    "CASE WHEN $1 IS NULL THEN NULL WHEN list_contains(map_keys($1), $2) THEN [$1[$2]] ELSE [] END";

/// What is no day, or no time of one, is an error of its part.
const MAKE_TIMESTAMP: &str = "make_date($1, $2, $3) + make_time($4, $5, CAST(floor($6) AS INTEGER)) + INTERVAL '1 microsecond' * CAST(round((CAST($6 AS DOUBLE) - floor(CAST($6 AS DOUBLE))) * 1000000) AS BIGINT)";

/// Expressions by name and number of arguments.
const TEMPLATES: [(&str, usize, &str); 82] = [
    ("element_at", 2, MAP_EXTRACT),
    ("map_extract", 2, MAP_EXTRACT),
    ("add", 2, "$1 + $2"),
    ("age", 1, "age(CAST(current_date AS TIMESTAMP), $1)"),
    ("array_to_string_comma_default", 1, "array_to_string($1, ',')"),
    ("array_to_string_comma_default", 2, "array_to_string($1, $2)"),
    ("encode", 1, "arrow_cast($1, 'Binary')"),
    ("decode", 1, "CAST($1 AS VARCHAR)"),
    ("arg_max_null", 2, "first_value($1 ORDER BY $2 DESC) FILTER (WHERE $2 IS NOT NULL)"),
    ("arg_min_null", 2, "first_value($1 ORDER BY $2) FILTER (WHERE $2 IS NOT NULL)"),
    ("arg_max_nulls_last", 2, "first_value($1 ORDER BY $2 DESC NULLS LAST)"),
    ("arg_min_nulls_last", 2, "first_value($1 ORDER BY $2 NULLS LAST)"),
    ("base64", 1, "encode($1, 'base64pad')"),
    ("to_base64", 1, "encode($1, 'base64pad')"),
    ("from_base64", 1, "decode($1, 'base64pad')"),
    ("from_hex", 1, "decode($1, 'hex')"),
    ("unhex", 1, "decode($1, 'hex')"),
    ("list_remove", 2, "array_remove_n($1, $2, 1)"),
    ("map_contains", 2, "list_contains(map_keys($1), $2)"),
    ("map_contains_value", 2, "list_contains(map_values($1), $2)"),
    ("map_extract_value", 2, "$1[$2]"),
    ("round_even", 2, ROUND_EVEN),
    ("roundbankers", 2, ROUND_EVEN),
    ("arg_max", 2, "first_value($1 ORDER BY $2 DESC) FILTER (WHERE $2 IS NOT NULL) IGNORE NULLS"),
    ("arg_min", 2, "first_value($1 ORDER BY $2) FILTER (WHERE $2 IS NOT NULL) IGNORE NULLS"),
    ("argmax", 2, "first_value($1 ORDER BY $2 DESC) FILTER (WHERE $2 IS NOT NULL) IGNORE NULLS"),
    ("argmin", 2, "first_value($1 ORDER BY $2) FILTER (WHERE $2 IS NOT NULL) IGNORE NULLS"),
    ("max_by", 2, "first_value($1 ORDER BY $2 DESC) FILTER (WHERE $2 IS NOT NULL) IGNORE NULLS"),
    ("min_by", 2, "first_value($1 ORDER BY $2) FILTER (WHERE $2 IS NOT NULL) IGNORE NULLS"),
    ("bit_length", 1, "CAST(8 * octet_length($1) AS INTEGER)"),
    ("count_if", 1, "count(*) FILTER (WHERE $1)"),
    ("countif", 1, "count(*) FILTER (WHERE $1)"),
    ("date", 1, "CAST($1 AS DATE)"),
    ("date_add", 2, "$1 + $2"),
    ("day", 1, "date_part('day', $1)"),
    ("dayname", 1, "to_char($1, '%A')"),
    ("dayofmonth", 1, "date_part('day', $1)"),
    ("dayofweek", 1, "date_part('dow', $1)"),
    ("dayofyear", 1, "date_part('doy', $1)"),
    ("decade", 1, "CAST(trunc(date_part('year', $1) / 10) AS BIGINT)"),
    ("decimal_average", 1, "basalt_decimal_average(sum($1), count($1), max($1))"),
    ("divide", 2, "basalt_divide_whole($1, $2)"),
    ("epoch", 1, "date_part('epoch', $1)"),
    ("fmod", 2, "$1 % $2"),
    ("generate_subscripts", 2, "unnest(generate_series(1, len($1)))"),
    ("geomean", 1, "exp(avg(ln($1)))"),
    ("geometric_mean", 1, "exp(avg(ln($1)))"),
    ("hour", 1, "date_part('hour', $1)"),
    ("if", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("iff", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("isodow", 1, "(date_part('dow', $1) + 6) % 7 + 1"),
    ("isoyear", 1, "date_part('isoyear', $1)"),
    ("json_array_elements", 1, ELEMENTS),
    ("json_array_elements_text", 1, ELEMENT_TEXTS),
    ("jsonb_array_elements", 1, ELEMENTS),
    ("jsonb_array_elements_text", 1, ELEMENT_TEXTS),
    ("last_day", 1, "CAST(date_trunc('month', $1) + INTERVAL '1 month -1 day' AS DATE)"),
    ("make_timestamp", 6, MAKE_TIMESTAMP),
    ("minute", 1, "date_part('minute', $1)"),
    ("mod", 2, "$1 % $2"),
    ("month", 1, "date_part('month', $1)"),
    ("monthname", 1, "to_char($1, '%B')"),
    ("multiply", 2, "$1 * $2"),
    ("quarter", 1, "date_part('quarter', $1)"),
    ("regexp_full_match", 2, "regexp_like($1, '^(?:' || $2 || ')$')"),
    ("second", 1, "CAST(floor(date_part('second', $1)) AS BIGINT)"),
    ("strftime", 2, "to_char($1, $2)"),
    ("subtract", 2, "$1 - $2"),
    ("to_days", 1, "basalt_interval($1, 'day')"),
    ("to_hours", 1, "basalt_interval($1, 'hour')"),
    ("to_minutes", 1, "basalt_interval($1, 'minute')"),
    ("to_months", 1, "basalt_interval($1, 'month')"),
    ("to_seconds", 1, "basalt_interval($1, 'second')"),
    ("to_weeks", 1, "basalt_interval($1, 'week')"),
    ("to_years", 1, "basalt_interval($1, 'year')"),
    ("unicode", 1, "CASE ascii($1) WHEN 0 THEN -1 ELSE ascii($1) END"),
    ("wavg", 2, WEIGHTED),
    ("weighted_avg", 2, WEIGHTED),
    ("weekday", 1, "date_part('dow', $1)"),
    ("xor", 2, "$1 # $2"),
    ("year", 1, "date_part('year', $1)"),
    ("yearweek", 1, "date_part('isoyear', $1) * 100 + date_part('week', $1)"),
];

/// What a name stands for with so many arguments; `None`: for itself.
pub(crate) fn meant(name: &str, arguments: usize) -> Option<Meant> {
    let template = TEMPLATES.iter().find(|(own, number, _)| *own == name && *number == arguments);
    if let Some((_, _, template)) = template {
        return Some(Meant::Template(template));
    }
    match (name, arguments) {
        ("any_value" | "arbitrary", 1) => Some(Meant::NonNull("first_value")),
        ("week" | "weekofyear", 1) => Some(Meant::Template("date_part('week', $1)")),
        _ => NAMES.iter().find(|(own, _)| *own == name).map(|(_, other)| Meant::Name(other)),
    }
}
