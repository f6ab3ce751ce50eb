//! `basalt man`: the manual's pages.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;

/// Arguments of `man`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  basalt man ~/.local/share/man/man1 && man basalt-sql")]
pub(crate) struct ManArgs {
    /// The folder that the pages are written to, one for each command
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes the pages, and says where.
pub(crate) fn run(args: &ManArgs, command: clap::Command) -> io::Result<()> {
    fs::create_dir_all(&args.folder)?;
    let pages = write(&args.folder, command, "basalt")?;
    let text = format!("{pages} pages written to {}\n", args.folder.display());
    io::Write::write_all(&mut io::stdout(), text.as_bytes())
}

/// The page of a command and those of the commands below it; how many there are.
fn write(folder: &Path, command: clap::Command, name: &str) -> io::Result<usize> {
    let mut pages = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        pages += write(folder, below.clone(), &format!("{name}-{}", below.get_name()))?;
    }
    let mut page = Vec::new();
    // The page is known by this name, which has to live as long as the program does.
    let title: &'static str = Box::leak(name.to_owned().into_boxed_str());
    clap_mangen::Man::new(command.name(title)).render(&mut page)?;
    fs::write(folder.join(format!("{name}.1")), page)?;
    Ok(pages)
}
