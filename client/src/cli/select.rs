//! `basalt select`: the answer as a set.

use std::{io, path::PathBuf, time::Duration, time::Instant};

use basalt_proto::v1::{SelectRequest, SipTag};
use clap::{Args, ValueEnum};

use super::{
    CliError, ConnectArgs,
    grid::Grid,
    human, output, print, query,
    sets::{self, SetArgs, bits_per_id, scope_text},
    style::Style,
};
use crate::{
    expr::Filter,
    set::{Ids, Set},
    sql::{self, Selection},
};

const EXAMPLES: &str = "\
Examples:
  basalt select 'SELECT * FROM flights WHERE dep_delay > 60' -o late.sip
  basalt query 'SELECT carrier, count(*) FROM flights GROUP BY carrier' --rows late.sip
  basalt select 'SELECT year FROM planes WHERE engines > 2' --keep 10m";

/// Arguments of `select`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES, disable_version_flag = true)]
pub struct SelectArgs {
    /// SELECT * FROM table [WHERE ...] for rows, SELECT column FROM ... for the column's values
    pub sql: String,

    /// Read this version of the table, as FOR VERSION AS OF in FROM does; the newest without either
    #[arg(long, value_name = "NUMBER")]
    pub version: Option<u64>,

    /// Write the set to this file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// The encoding, for other readers of the file; the smallest one without it
    #[arg(long, value_enum)]
    pub tag: Option<TagArg>,

    /// Keep the set on the server for so long (10m; at most 24h) and print its handle
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub keep: Option<Duration>,

    /// Sets that are filters
    #[command(flatten)]
    pub sets: SetArgs,
}

/// A duration that is not 0.
fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("no time at all keeps nothing".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

/// How a set is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TagArg {
    /// A portable Roaring bitmap of 64 bits
    Roaring,
    /// Differences as varints
    VarintDelta,
    /// Rice-coded ranges
    Ranges,
    /// Rice-coded gaps
    Gaps,
}

impl From<TagArg> for SipTag {
    fn from(tag: TagArg) -> Self {
        match tag {
            TagArg::Roaring => Self::Roaring,
            TagArg::VarintDelta => Self::VarintDelta,
            TagArg::Ranges => Self::Ranges,
            TagArg::Gaps => Self::Gaps,
        }
    }
}

pub(crate) async fn run(args: &SelectArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let selection = sql::parse_selection(&args.sql);
    let selection = selection.map_err(|error| CliError::Sql { error, sql: args.sql.clone() })?;
    let Selection { table, version, key, filter } = selection;
    let filters: Vec<Filter> = filter.into_iter().chain(args.sets.filters()?).collect();
    let request = SelectRequest {
        table,
        version: query::one_version(version, args.version)?,
        key: key.unwrap_or_default(),
        filter: (!filters.is_empty()).then(|| Filter::all(filters).into()),
        tag: args.tag.map_or(SipTag::Unspecified, Into::into).into(),
        ..Default::default()
    };
    let client = connect.connect().await?;
    let started = Instant::now();
    let select = client.select_of(request);
    let set = match (args.keep, &args.output) {
        (Some(time), None) => select.only_kept(time).await?,
        (Some(time), Some(_)) => select.keep(time).await?,
        (None, _) => select.await?,
    };
    let mut footer = vec![output::work(started.elapsed(), &set.statistics)];
    if let Some(path) = &args.output {
        sets::write(path, &set.to_file()?)?;
        footer.insert(0, format!("written to {}", path.display()));
    }
    // The handle alone, so that it can be taken from the output.
    match &set.kept {
        Some(kept) => {
            footer.insert(0, format!("kept for {}", humantime::format_duration(kept.expires_in)));
            eprint!("{}", summary(&set)?);
            print(&format!("{}\n", kept.handle))?;
        }
        None => print(&summary(&set)?)?,
    }
    eprintln!("{}", Style::of(&io::stderr()).dim(&footer.join(" · ")));
    Ok(())
}

/// What was selected, and what it takes.
fn summary(set: &Set<Ids>) -> Result<String, CliError> {
    let mut grid =
        Grid::new([("set", false), ("ids", true), ("tag", false), ("bytes", true), ("bits/id", true)]);
    let [tag, bytes, bits] = match set.bytes.len() as u64 {
        // Left on the server.
        0 => ["-", "-", "-"].map(str::to_owned),
        bytes => {
            let tag = set.sip()?.tag().to_string();
            [tag, human::bytes(bytes), bits_per_id(bytes, set.cardinality)]
        }
    };
    grid.row([scope_text(set), human::count(set.cardinality), tag, bytes, bits]);
    Ok(grid.render())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sip::{Limits, Sip};

    #[test]
    fn summaries() {
        let sip = Sip::from_bytes([2, 3, 5, 3, 5], &Limits::default()).unwrap();
        let mut set = Set::new("flights", 3, Ids::Rows, &sip);
        let expected = "  \
  set                         ids  tag           bytes  bits/id
  rows of flights, version 3    3  varint-delta    5 B   13.333
";
        assert_eq!(summary(&set).unwrap(), expected);
        set.bytes.clear();
        let expected = "  \
  set                         ids  tag  bytes  bits/id
  rows of flights, version 3    3  -        -        -
";
        assert_eq!(summary(&set).unwrap(), expected);
    }
}
