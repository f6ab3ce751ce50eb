//! `basalt deletes`: what deletions leave in a table's files.

use clap::Args;

use super::{CliError, ConnectArgs, print};
use crate::Deletes;

/// Arguments of `deletes`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
vectors: deletion vectors beside the files of a table, the least to write. Some readers of Delta Lake do not know them, \
and refuse the table from its first deletion on.
rewrite: the files that had the rows are written again without them. A table that is made so (`basalt load --deletes \
rewrite`) stays readable for all; one that is changed later keeps the vectors that it has until its files are merged, \
and goes on saying that it may have them.

Examples:
  basalt deletes events                what they leave
  basalt deletes events rewrite        from now on no vectors")]
pub struct DeletesArgs {
    /// The table
    pub table: String,

    /// What deletions leave from now on [default: show it]
    #[arg(value_enum)]
    pub deletes: Option<Deletes>,
}

/// "deletes rewrite files".
pub(crate) fn shown(deletes: Option<Deletes>) -> &'static str {
    match deletes {
        None => "has no files",
        Some(Deletes::Vectors) => "deletes leave vectors",
        Some(Deletes::Rewrite) => "deletes rewrite files",
    }
}

pub(crate) async fn run(args: &DeletesArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let client = connect.connect().await?;
    let table = match args.deletes {
        None => client.table_summary(&args.table).await?,
        Some(deletes) => client.set_deletes(&args.table, deletes).await?,
    };
    print(&format!("{}: {}\n", table.name, shown(table.deletes)))
}
