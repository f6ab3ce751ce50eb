//! What functions of other systems are called here, for those who write them; and messages of the planner about functions
//! in the form of ours.

use basalt_core::similar;

/// Names in small letters, and what says the same here.
const NAMES: [(&str, &str); 42] = [
    ("any", "any_value(x)"),
    ("anylast", "last(x)"),
    ("avgif", "avg(x) FILTER (WHERE condition)"),
    ("charindex", "strpos(text, part)"),
    ("convert", "CAST(x AS type)"),
    ("date_add", "t + INTERVAL '1 day'"),
    ("date_sub", "t - INTERVAL '1 day'"),
    ("dateadd", "t + INTERVAL '1 day'"),
    ("from_json", "CAST(json AS VARCHAR[]), or json -> 'key'"),
    ("getdate", "now()"),
    ("groupuniqarray", "array_agg(DISTINCT x)"),
    ("isnull", "coalesce(x, y), or x IS NULL"),
    ("json_each", "json_array_elements(json), or unnest(json_keys(json))"),
    ("json_object_keys", "unnest(json_keys(json))"),
    ("jsonb_each", "json_array_elements(json), or unnest(json_keys(json))"),
    ("jsonb_object_keys", "unnest(json_keys(json))"),
    ("maxif", "max(x) FILTER (WHERE condition)"),
    ("minif", "min(x) FILTER (WHERE condition)"),
    ("multiif", "CASE WHEN ... THEN ... ELSE ... END"),
    ("notempty", "x <> ''"),
    ("quantileexact", "quantile(x, share)"),
    ("str_to_date", "strptime(text, format)"),
    ("sumif", "sum(x) FILTER (WHERE condition)"),
    ("timestampdiff", "date_diff('unit', from, to)"),
    ("todate", "CAST(t AS DATE)"),
    ("todayofmonth", "day(t)"),
    ("todayofweek", "isodow(t)"),
    ("todayofyear", "dayofyear(t)"),
    ("tohour", "hour(t)"),
    ("tointervalday", "INTERVAL '1 day'"),
    ("tomonth", "month(t)"),
    ("tostartofday", "date_trunc('day', t)"),
    ("tostartofhour", "date_trunc('hour', t)"),
    ("tostartofinterval", "time_bucket(INTERVAL '15 minutes', t)"),
    ("tostartofminute", "date_trunc('minute', t)"),
    ("tostartofmonth", "date_trunc('month', t)"),
    ("tostartofweek", "date_trunc('week', t)"),
    ("tostartofyear", "date_trunc('year', t)"),
    ("tostring", "CAST(x AS VARCHAR)"),
    ("toyear", "year(t)"),
    ("uniq", "approx_count_distinct(x), or count(DISTINCT x)"),
    ("uniqexact", "count(DISTINCT x)"),
];

/// Where files are, which are no tables here.
const FILES: &str = "files are loaded, by COPY t FROM or by basalt load";

/// What says the same here as a name elsewhere.
fn here(name: &str) -> Option<&'static str> {
    let known = NAMES.iter().find(|(other, _)| *other == name.to_lowercase());
    known.map(|(_, here)| *here)
}

/// Where a UNION is to be in the order of what its first query does not give, but another one does.
const ORDER_OF_UNION: &str = "ORDER BY of a UNION names a column that its first query does not give: it takes those, by \
                              their names there or by their places";

/// What the planner says of a function, or of an order, as we do; `None`: it says nothing of one.
pub(crate) fn told(message: &str) -> Option<String> {
    // It has added what is named to the queries that do not give it yet, and only then looks at how many columns each has.
    if message.starts_with("Union schemas have different number of fields") {
        return Some(ORDER_OF_UNION.to_owned());
    }
    if let Some((name, rest)) =
        message.strip_prefix("Invalid function '").and_then(|rest| rest.split_once('\''))
    {
        let hint = match here(name) {
            Some(here) => format!("; here it is {here}"),
            // The nearest of all, however far it is.
            None => similar::hint(name, rest.rsplit('\'').nth(1)),
        };
        return Some(format!("no function {name:?}{hint}"));
    }
    if let Some(name) =
        message.strip_prefix("table function '").and_then(|rest| rest.strip_suffix("' not found"))
    {
        let hint = match here(name) {
            Some(here) => format!("here it is {here}"),
            None if name.starts_with("read_") || name.ends_with("_scan") => FILES.to_owned(),
            None => "range(n) is one".to_owned(),
        };
        return Some(format!("no function {name:?} that gives rows; {hint}"));
    }
    // A function's own words stand behind or between those of the planner.
    const OWN: &str = "coercion failed with: External error: ";
    if let Some((_, own)) = message.split_once(OWN).filter(|(_, own)| !own.contains("No function matches")) {
        return Some(own.lines().next()?.trim_end_matches('.').to_owned());
    }
    let (said, types) = message.split_once("No function matches the given name and argument types '")?;
    match said.rsplit_once("External error: ") {
        Some((_, own)) => Some(own.trim_end().trim_end_matches('.').to_owned()),
        None => {
            let (call, _) = types.split_once("'. You might need")?;
            Some(format!("no function {call}"))
        }
    }
}

/// `; files are loaded` where the name of a table is that of a file.
pub(crate) fn of_table(name: &str) -> Option<String> {
    let low = name.to_lowercase();
    let is_file =
        [".parquet", ".csv", ".json", ".ndjson", ".arrow", ".gz"].iter().any(|end| low.ends_with(end));
    is_file.then(|| format!("; {FILES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_once() {
        assert!(NAMES.is_sorted_by(|(one, _), (other, _)| one < other));
        assert!(NAMES.iter().all(|(name, _)| *name == name.to_lowercase()));
    }

    #[test]
    fn what_the_planner_says_is_told_as_we_do() {
        for (message, expected) in [
            (
                "Invalid function 'toStartOfHour'.\nDid you mean 'list_bool_or'?",
                Some("no function \"toStartOfHour\"; here it is date_trunc('hour', t)"),
            ),
            (
                "Invalid function 'lenght'.\nDid you mean 'length'?",
                Some("no function \"lenght\"; did you mean \"length\"?"),
            ),
            ("Invalid function 'frobnicate'.\nDid you mean 'tanh'?", Some("no function \"frobnicate\"")),
            (
                "table function 'read_csv' not found",
                Some(
                    "no function \"read_csv\" that gives rows; files are loaded, by COPY t FROM or by basalt load",
                ),
            ),
            (
                "Execution error: Function 'sum' user-defined coercion failed with: External error: sum takes numbers, not \
                 Utf8. No function matches the given name and argument types 'sum(Utf8)'. You might need to add explicit \
                 type casts.\n\tCandidate functions:\n\tsum(UserDefined)",
                Some("sum takes numbers, not Utf8"),
            ),
            (
                "Failed to coerce arguments. No function matches the given name and argument types 'ltrim(Int64)'. You might \
                 need to add explicit type casts.\n\tCandidate functions:\n\tltrim(String)",
                Some("no function ltrim(Int64)"),
            ),
            (
                "table function 'json_each' not found",
                Some(
                    "no function \"json_each\" that gives rows; here it is json_array_elements(json), or unnest(json_keys(json))",
                ),
            ),
            (
                "Union schemas have different number of fields: query 1 has 3 fields whereas query 2 has 2 fields",
                Some(ORDER_OF_UNION),
            ),
            ("the disk is full", None),
        ] {
            assert_eq!(told(message).as_deref(), expected, "{message}");
        }
        assert!(of_table("x.Parquet").is_some() && of_table("parquet").is_none());
    }
}
