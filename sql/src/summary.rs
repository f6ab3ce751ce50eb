//! SUMMARIZE, as DuckDB has it: a line for each column of a table or a query, with what its values are like. It is one query
//! of aggregates, whose only row is turned into lines.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, cast::AsArray as _,
    types::Int64Type,
};
use arrow_schema::DataType as Arrow;
use basalt_core::schema::{DataType as Logical, Field, Schema};
use datafusion::arrow::compute::{cast, concat, concat_batches};
use futures_util::TryStreamExt as _;

use crate::{
    answer::Shown,
    command::{Command, Description},
    describe,
    engine::{Request, Shared},
    error::{Error, Result},
    limits,
    made::made,
    plan::{Planned, plan},
    script::{self, Word},
};

const WORD: &str = "summarize";
/// Digits of the share of NULL, in hundredths of a percent.
const SHARE: Logical = Logical::Decimal { precision: 9, scale: 2 };
/// Columns of the row for each column: those of the answer that are not known before.
const TEXTS: [&str; 7] = ["min", "max", "avg", "std", "q25", "q50", "q75"];

/// The query that a statement summarizes, with the places that it has there; `None`: it is another statement.
pub(crate) fn summarized(sql: &str) -> Result<Option<String>> {
    let text = sql.trim_start();
    let begins = text.get(..WORD.len()).is_some_and(|first| first.eq_ignore_ascii_case(WORD));
    if !begins && !text.starts_with("--") && !text.starts_with("/*") {
        return Ok(None);
    }
    // A text that is no statement is told by whoever parses it.
    let Ok(parts) = script::split(sql) else { return Ok(None) };
    let [part] = parts.as_slice() else { return Ok(None) };
    if part.words.first() != Some(&Word::Plain(WORD.to_owned())) {
        return Ok(None);
    }
    let rest = match (part.words.get(1), part.from(1)) {
        (Some(Word::Plain(table)), _) if table == "table" => part.from(2),
        (_, rest) => rest,
    };
    let rest = rest.ok_or_else(|| Error::invalid("SUMMARIZE which table or query?"))?;
    let is_query = match rest.words.first() {
        Some(Word::Plain(word)) => ["select", "with", "values", "from"].contains(&word.as_str()),
        Some(Word::Sign(sign)) => sign == "(",
        _ => false,
    };
    // Blanks stand for what is left out, so that errors keep their places.
    let before: String = sql.chars().take(rest.before).map(|c| if c == '\n' { c } else { ' ' }).collect();
    Ok(Some(match is_query {
        true => format!("{before}{}", rest.sql),
        false => format!("{}FROM {}", before.get(5..).unwrap_or_default(), rest.sql),
    }))
}

pub(crate) fn schema() -> Schema {
    let columns = [
        ("column_name", Logical::Utf8),
        ("column_type", Logical::Utf8),
        ("min", Logical::Utf8),
        ("max", Logical::Utf8),
        ("approx_unique", Logical::Int64),
        ("avg", Logical::Utf8),
        ("std", Logical::Utf8),
        ("q25", Logical::Utf8),
        ("q50", Logical::Utf8),
        ("q75", Logical::Utf8),
        ("count", Logical::Int64),
        ("null_percentage", SHARE),
    ];
    Schema::of_answer(columns.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec())
}

/// What the statement takes and gives, where it summarizes this query.
pub(crate) async fn described(
    shared: &Shared,
    request: Request,
    types: &[Option<Logical>],
    query: String,
) -> Result<Description> {
    let of_query = Box::pin(describe::describe(shared, Request { sql: query, ..request }, types)).await?;
    let (schema, arrow) = (schema(), schema().to_outer_arrow());
    Ok(Description { command: Command::Show, schema, arrow, copied: None, ..of_query })
}

/// Summarizes a query.
pub(crate) async fn summary(shared: &Shared, request: &Request, query: &str) -> Result<Planned> {
    let described = Box::pin(describe::describe(shared, instead(request, query.to_owned()), &[])).await?;
    if described.command != Command::Select {
        return Err(Error::unsupported("SUMMARIZE of anything but a table or a query"));
    }
    let internal = |error: arrow_schema::ArrowError| Error::Internal(error.to_string());
    let fields = described.schema.fields();
    let mut parts = Vec::new();
    for (begin, some) in
        (0..).step_by(limits::SUMMARIZED_AT_ONCE).zip(fields.chunks(limits::SUMMARIZED_AT_ONCE))
    {
        let sql = aggregates(query, fields.len(), begin, some);
        let planned = Box::pin(plan(shared, instead(request, sql))).await?;
        let Planned { shown, batches, .. } = planned;
        // Whoever asks, lists and intervals are told as texts.
        let shown = Shown::of(shown.schema().clone());
        let batches: Vec<RecordBatch> = batches.try_collect().await?;
        let batches = batches.iter().map(|batch| shown.batch(batch)).collect::<Result<Vec<_>>>()?;
        let row = concat_batches(shown.arrow(), &batches).map_err(internal)?;
        if row.num_rows() != 1 {
            return Err(Error::Internal(format!("a summary of {} rows", row.num_rows())));
        }
        parts.push(lines(&row, some)?);
    }
    let columns = (0..schema().fields().len()).map(|column| {
        let of_parts: Vec<&dyn arrow_array::Array> = parts.iter().map(|part| part[column].as_ref()).collect();
        concat(&of_parts).map_err(internal)
    });
    made(schema(), columns.collect::<Result<_>>()?)
}

/// The same request with another statement.
fn instead(request: &Request, sql: String) -> Request {
    let Request { parameters, catalog, memory, .. } = request;
    Request { sql, parameters: parameters.clone(), catalog: Arc::clone(catalog), memory: Arc::clone(memory) }
}

/// The query of aggregates for some columns, from the one at `begin` on, of all that a query has: how many rows there are, then
/// of each column how many are not NULL, how many there are of different values, and [`TEXTS`].
fn aggregates(query: &str, all: usize, begin: usize, fields: &[Field]) -> String {
    let mut list = vec!["count(*) AS rows".to_owned()];
    for (i, field) in fields.iter().enumerate() {
        let column = format!("c{}", begin + i);
        let arrow = field.to_arrow_type();
        let none = || "CAST(NULL AS TEXT)".to_owned();
        let text = |value: String| format!("CAST({value} AS TEXT)");
        let extreme = |name: &str| match arrow {
            Arrow::Binary => format!("encode({name}({column}), 'hex')"),
            _ => text(format!("{name}({column})")),
        };
        let of_numbers = |value: String| if arrow.is_numeric() { text(value) } else { none() };
        let quantile = |share: &str| {
            let value = match arrow {
                Arrow::Decimal128(..) => format!("CAST({column} AS DOUBLE)"),
                _ => column.clone(),
            };
            of_numbers(format!("approx_quantile({value}, {share})"))
        };
        let unique = match arrow {
            Arrow::Boolean => format!("count(DISTINCT {column})"),
            // What is counted by hashes has one of these types.
            Arrow::Float32 | Arrow::Float64 | Arrow::Decimal128(..) => {
                format!("approx_count_distinct(CAST({column} AS TEXT))")
            }
            _ => format!("approx_count_distinct({column})"),
        };
        list.push(format!("count({column}) AS f{i}"));
        list.push(format!("{unique} AS u{i}"));
        let texts = [
            extreme("min"),
            extreme("max"),
            of_numbers(format!("avg({column})")),
            of_numbers(format!("stddev({column})")),
            quantile("0.25"),
            quantile("0.5"),
            quantile("0.75"),
        ];
        list.extend(texts.iter().zip(TEXTS).map(|(text, name)| format!("{text} AS {name}{i}")));
    }
    // On a line of its own: the query may end in a comment.
    // By their places: names may be there twice, or be those of expressions.
    let names: Vec<String> = (0..all).map(|i| format!("c{i}")).collect();
    format!("SELECT {} FROM (\n{query}\n) AS summarized ({})", list.join(", "), names.join(", "))
}

/// The row of aggregates as a line for each column.
fn lines(row: &RecordBatch, fields: &[Field]) -> Result<Vec<ArrayRef>> {
    let internal = |error: arrow_schema::ArrowError| Error::Internal(error.to_string());
    let number = |column: usize| -> Result<i64> {
        let values = cast(row.column(column), &Arrow::Int64).map_err(internal)?;
        // Default: a count is there, and NULL is of no rows.
        Ok(values.as_primitive_opt::<Int64Type>().filter(|v| v.is_valid(0)).map_or(0, |v| v.value(0)))
    };
    let of_column = TEXTS.len() + 2;
    let begins = |i: usize| 1 + i * of_column;
    let text = |place: usize| -> Result<ArrayRef> {
        let texts = (0..fields.len()).map(|i| {
            let value = cast(row.column(begins(i) + 2 + place), &Arrow::Utf8).map_err(internal)?;
            let value = value.as_string::<i32>();
            Ok(value.is_valid(0).then(|| value.value(0).to_owned()))
        });
        Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
    };
    let rows = number(0)?;
    let filled = (0..fields.len()).map(|i| number(begins(i))).collect::<Result<Vec<_>>>()?;
    let unique = (0..fields.len()).map(|i| number(begins(i) + 1)).collect::<Result<Vec<_>>>()?;
    let shares = filled.iter().map(|filled| {
        let nulls = i128::from(rows - filled);
        // Rounded to hundredths of a percent.
        (rows > 0).then(|| (nulls * 20_000 + i128::from(rows)) / (2 * i128::from(rows)))
    });
    let shares: Decimal128Array = shares.collect();
    // No estimate is above what there can be.
    let unique = unique.iter().zip(&filled).map(|(unique, filled)| *unique.min(filled));
    Ok(vec![
        Arc::new(fields.iter().map(|field| Some(field.name.as_str())).collect::<StringArray>()),
        Arc::new(fields.iter().map(|field| Some(field.type_name())).collect::<StringArray>()),
        text(0)?,
        text(1)?,
        Arc::new(Int64Array::from_iter_values(unique)),
        text(2)?,
        text(3)?,
        text(4)?,
        text(5)?,
        text(6)?,
        Arc::new(Int64Array::from(vec![rows; fields.len()])),
        Arc::new(shares.with_precision_and_scale(9, 2).map_err(internal)?),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_queries_are_summarized() {
        let query = |sql: &str| summarized(sql).unwrap();
        assert_eq!(query("SUMMARIZE t").as_deref(), Some("     FROM t"));
        assert_eq!(query("summarize table \"a b\";").as_deref(), Some("           FROM \"a b\""));
        assert_eq!(query("-- é\nSummarize SELECT 1").as_deref(), Some("    \n          SELECT 1"));
        assert_eq!(query("SELECT 1"), None);
        assert_eq!(query("summarized"), None);
        assert!(summarized("SUMMARIZE").is_err());
    }
}
