//! `basalt verify`: reads all files of tables on storage, and names what is damaged.

use clap::Args;

use super::{CliError, ConnectArgs, human, print};

/// Arguments of `verify`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Every file is read from the store and compared with the digests that the table's log has of it, and the log is read as at \
a start. Files of other writers are decoded. The exit code is 1 when something is damaged; tables are served on from \
memory meanwhile, which holds what was written.

Examples:
  basalt verify                  all tables
  basalt verify flights          one")]
pub struct VerifyArgs {
    /// The tables [default: all]
    pub tables: Vec<String>,
}

pub(crate) async fn run(args: &VerifyArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let client = connect.connect().await?;
    let mut names = args.tables.clone();
    if names.is_empty() {
        let (tables, damaged) = client.list_all_tables().await?;
        names.extend(tables.into_iter().map(|table| table.name));
        names.extend(damaged.into_iter().map(|table| table.name));
        names.sort();
    }
    let mut damaged = 0;
    for name in &names {
        let verified = client.verify_table(name).await?;
        let files = human::plural(verified.files, "file");
        let found = match verified.damage.len() as u64 {
            0 => "as written".to_owned(),
            n => format!("{} damaged", human::plural(n, "part")),
        };
        print(&format!("{name}: {files}, {}: {found}\n", human::bytes(verified.bytes)))?;
        for damage in &verified.damage {
            let column = damage.column.as_ref().map(|column| format!("column {column}: "));
            print(&format!("  {}: {}{}\n", damage.file, column.unwrap_or_default(), damage.message))?;
        }
        damaged += usize::from(!verified.damage.is_empty());
    }
    match damaged {
        0 => Ok(()),
        _ => Err(CliError::Damaged(damaged as u64)),
    }
}
