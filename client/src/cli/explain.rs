//! `basalt explain`.

use std::{
    io,
    time::{Duration, Instant},
};

use clap::Args;

use super::{
    CliError, ConnectArgs,
    answer::{self, Asked, OutputFormat, Target},
    grid::{self, Grid},
    human, output, print, query,
    sets::SetArgs,
    style::Style,
};
use crate::{
    client::Client,
    plan::{PlanHop, PlanOperator, PlanSip},
    query::Query,
    sql::Select,
};

/// Arguments of `explain`.
#[derive(Args, Clone, Debug)]
#[command(disable_version_flag = true)]
pub struct ExplainArgs {
    /// A SELECT. What is not over one table alone is planned by the server's SQL
    pub sql: String,

    /// Read this version of the table, as FOR VERSION AS OF in FROM does; the newest without either
    #[arg(long, value_name = "NUMBER")]
    pub version: Option<u64>,

    /// Run it, and show what it did
    #[arg(long)]
    pub analyze: bool,

    /// Sets that are filters
    #[command(flatten)]
    pub sets: SetArgs,
}

pub(crate) async fn run(args: &ExplainArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let select = query::parse(&args.sql);
    let filters = args.sets.filters()?;
    let client = connect.connect().await?;
    let started = Instant::now();
    let select = match select {
        // What the typed API has no words for, SQL may have.
        Err(wrong) if filters.is_empty() && args.version.is_none() => {
            return by_sql(&client, args, wrong).await;
        }
        select => select?,
    };
    let mut request = select.resolve(&client).await?;
    request.version = query::one_version(request.version, args.version)?;
    let query = filters.into_iter().fold(client.query_of(request), Query::filter);
    let plan = query.explain(args.analyze).await?;
    print(&format!("{}\n", grid::escape_lines(plan.text.trim_end())))?;
    // Without `analyze` the text has it all.
    if args.analyze && !plan.sips.is_empty() {
        print(&format!("\n{}", sets(&plan.sips)))?;
    }
    if !plan.hops.is_empty() {
        print(&format!("\n{}", hops(&plan.hops)))?;
    }
    if !plan.operators.is_empty() {
        print(&format!("\n{}", operators(&plan.operators)))?;
    }
    if let Some(statistics) = plan.statistics.filter(|_| args.analyze) {
        eprintln!("{}", Style::of(&io::stderr()).dim(&output::work(started.elapsed(), &statistics)));
    }
    Ok(())
}

/// The plan of a statement, as the server's SQL has it. `wrong`: why the typed API has none.
async fn by_sql(client: &Client, args: &ExplainArgs, wrong: CliError) -> Result<(), CliError> {
    let text = format!("EXPLAIN {}{}", if args.analyze { "ANALYZE " } else { "" }, args.sql);
    let select: Result<Select, CliError> = Err(wrong);
    match (answer::statement(client, &text, &select).await?, select) {
        (Asked::Rows(stream), _) => {
            let target = Target { format: OutputFormat::Table, most_rows: 0, file: None, pages: false };
            answer::write(*stream, &text, &target).await.map(drop)
        }
        (Asked::Typed(_), select) => select.map(drop),
    }
}

/// What the nodes of a cluster did, and what travelled.
pub fn hops(hops: &[PlanHop]) -> String {
    let mut grid = Grid::new([
        ("node", false),
        ("for", false),
        ("fragments", true),
        ("loaded", true),
        ("blocks", true),
        ("skipped", true),
        ("sent", true),
        ("received", true),
        ("elapsed", true),
        ("executing", true),
    ]);
    for hop in hops {
        let statistics = hop.statistics.unwrap_or_default();
        grid.row([
            hop.node.clone(),
            if hop.of.is_empty() { "the query".to_owned() } else { hop.of.clone() },
            human::count(hop.fragments),
            human::count(hop.loaded),
            human::count(statistics.blocks),
            human::count(statistics.blocks_pruned),
            human::bytes(hop.sent_bytes),
            human::bytes(hop.received_bytes),
            human::duration(Duration::from_micros(hop.elapsed_us)),
            human::duration(Duration::from_micros(hop.execute_us)),
        ]);
    }
    grid.render()
}

/// The sets that filtered, and what they did.
fn sets(sips: &[PlanSip]) -> String {
    let mut grid = Grid::new([
        ("set", false),
        ("from", false),
        ("ids", true),
        ("tag", false),
        ("bytes", true),
        ("blocks skipped", true),
        ("whole", true),
        ("rows in", true),
        ("passed", true),
        ("", true),
        ("build", true),
        ("apply", true),
    ]);
    for sip in sips {
        grid.row([
            sip.text.clone(),
            sip.source.clone(),
            human::count(sip.cardinality),
            sip.tag.clone(),
            human::bytes(sip.bytes),
            human::count(sip.blocks_skipped),
            human::count(sip.blocks_full),
            human::count(sip.rows_in),
            human::count(sip.rows_passed),
            human::share(sip.rows_passed, sip.rows_in),
            human::duration(Duration::from_micros(sip.build_us)),
            human::duration(Duration::from_micros(sip.apply_us)),
        ]);
    }
    grid.render()
}

/// What the steps of the run took: time from the first beginning to the last end, and of all threads in sum.
fn operators(operators: &[PlanOperator]) -> String {
    let all: u64 = operators.iter().map(|operator| operator.busy_ns).sum();
    let mut grid = Grid::new([
        ("step", false),
        ("", false),
        ("rows in", true),
        ("rows out", true),
        ("elapsed", true),
        ("busy", true),
        ("", true),
    ]);
    for operator in operators {
        grid.row([
            operator.name.clone(),
            operator.text.clone(),
            human::count(operator.rows_in),
            human::count(operator.rows_out),
            human::duration(Duration::from_nanos(operator.elapsed_ns)),
            human::duration(Duration::from_nanos(operator.busy_ns)),
            human::share(operator.busy_ns, all),
        ]);
    }
    grid.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_what_they_did() {
        let given = PlanSip {
            text: "rows".to_owned(),
            tag: "gaps".to_owned(),
            bytes: 20_400,
            cardinality: 26_581,
            blocks_skipped: 2,
            blocks_full: 1,
            rows_in: 200_000,
            rows_passed: 20_000,
            build_us: 0,
            apply_us: 1_250,
            source: "request".to_owned(),
        };
        let join = PlanSip {
            text: "tailnum".to_owned(),
            tag: "texts".to_owned(),
            source: "semi-join planes.tailnum".to_owned(),
            ..given.clone()
        };
        let expected = "  \
  set      from                         ids  tag      bytes  blocks skipped  whole  rows in  passed          build    apply
  rows     request                   26,581  gaps   20.4 kB               2      1  200,000  20,000  10 %  0.00 us  1.25 ms
  tailnum  semi-join planes.tailnum  26,581  texts  20.4 kB               2      1  200,000  20,000  10 %  0.00 us  1.25 ms
";
        assert_eq!(sets(&[given, join]), expected);
    }

    #[test]
    fn steps_and_what_they_took() {
        let prune = PlanOperator {
            name: "prune".to_owned(),
            text: String::new(),
            rows_in: 200_000,
            rows_out: 65_536,
            elapsed_ns: 2_000,
            busy_ns: 2_000,
        };
        let filter = PlanOperator {
            name: "filter".to_owned(),
            text: "a < 10".to_owned(),
            rows_in: 65_536,
            rows_out: 10,
            elapsed_ns: 3_000,
            busy_ns: 6_000,
        };
        let table = operators(&[prune, filter]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["step", "rows", "in", "rows", "out", "elapsed", "busy"]);
        assert_eq!(lines[1], ["prune", "200,000", "65,536", "2.00", "us", "2.00", "us", "25", "%"]);
        assert_eq!(
            lines[2],
            ["filter", "a", "<", "10", "65,536", "10", "3.00", "us", "6.00", "us", "75", "%"]
        );
    }
}
