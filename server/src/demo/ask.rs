//! Questions, their answers, and what they took.

use std::{
    io::{self, Write as _},
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, RecordBatch, cast::AsArray as _, types::Float64Type};
use arrow_schema::ArrowError;
use basalt_client::{
    Client, QueryResult, Statistics,
    cli::{
        output::{self, CsvWriter},
        style::Style,
    },
    sql,
};
use tpchgen::q_and_a::answers_sf1;

use super::{
    Data, Error,
    queries::{self, Question},
};

/// Each question is asked so many times, and the best time counts: the first is slower by whatever was cold.
const TIMES: usize = 3;

/// Asks everything. At scale 1, answers that the TPC publishes must be its own.
pub(super) async fn all(client: &Client, data: Data, scale: f64, style: Style) -> Result<(), Error> {
    let mut out = io::stdout();
    let note = format!("(through gRPC; the best of {TIMES} times)");
    writeln!(out, "{} {}\n", style.bold("Questions"), style.dim(&note))?;
    for question in queries::of(data) {
        ask(client, &question, scale, style).await?;
    }
    Ok(())
}

async fn ask(client: &Client, question: &Question, scale: f64, style: Style) -> Result<(), Error> {
    let mut out = io::stdout();
    writeln!(out, "{}", style.bold(question.title))?;
    for line in question.sql.lines() {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)?;

    let request = sql::parse_select(question.sql)?.resolve(client).await?;
    let mut best: Option<(Duration, Statistics)> = None;
    let mut answer = None;
    for _ in 0..TIMES {
        let start = Instant::now();
        let result = client.query_of(request.clone()).collect().await?;
        let time = start.elapsed();
        if best.as_ref().is_none_or(|(best, _)| time < *best) {
            best = Some((time, result.statistics));
        }
        answer = Some(result);
    }
    let (Some(answer), Some((time, statistics))) = (answer, best) else { return Ok(()) };

    writeln!(out, "{}", output::table(&rounded(&answer)?)?)?;
    writeln!(out, "  {}", style.green(&output::work(time, &statistics)))?;
    if let Some(number) = question.published.filter(|_| scale == 1.0) {
        check(number, &cells(&answer)?)?;
        writeln!(out, "  {}", style.green(&format!("✓ the answer that the TPC publishes for Q{number}")))?;
    }
    writeln!(out)?;
    Ok(())
}

/// The answer with floats of four decimals: averages would be wider than all else.
fn rounded(answer: &QueryResult) -> Result<QueryResult, ArrowError> {
    let round = |column: &ArrayRef| match column.as_primitive_opt::<Float64Type>() {
        Some(floats) => Arc::new(floats.unary::<_, Float64Type>(|x| (x * 1e4).round() / 1e4)) as ArrayRef,
        None => Arc::clone(column),
    };
    let batch = |batch: &RecordBatch| {
        RecordBatch::try_new(batch.schema(), batch.columns().iter().map(round).collect())
    };
    let mut rounded = answer.clone();
    rounded.batches = answer.batches.iter().map(batch).collect::<Result<_, _>>()?;
    Ok(rounded)
}

/// The answer's cells as text.
fn cells(answer: &QueryResult) -> io::Result<Vec<Vec<String>>> {
    let mut csv = Vec::new();
    let mut writer = CsvWriter::new(&mut csv, &answer.schema)?;
    answer.batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()?;
    let text = String::from_utf8_lossy(&csv);
    Ok(text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect())
}

/// Compares rows with the published ones, which are rounded to hundredths.
fn check(number: i32, rows: &[Vec<String>]) -> Result<(), Error> {
    let published = answers_sf1::answer(number).unwrap_or_default();
    let expected: Vec<Vec<&str>> = published
        .lines()
        .filter(|line| !line.trim().is_empty())
        .skip(1)
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let same = |ours: &str, theirs: &str| match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(ours), Ok(theirs)) => (ours - theirs).abs() <= 0.005_001,
        _ => ours == theirs,
    };
    let equal = rows.len() == expected.len()
        && rows.iter().zip(&expected).all(|(ours, theirs)| {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        });
    if equal { Ok(()) } else { Err(Error::Answer { number, published }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_answers_are_rounded() {
        let row = |revenue: &str| vec![vec![revenue.to_owned()]];
        assert!(check(6, &row("123141078.2283")).is_ok());
        assert!(check(6, &row("123141078.24")).is_err());
        assert!(check(6, &[]).is_err());
    }
}
