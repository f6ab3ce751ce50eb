//! `basalt completions`: what a shell needs to complete the commands of the binary.

use std::io::{self, Write as _};

use clap::Args;
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_long_help = "\
Examples:
  basalt completions bash > ~/.local/share/bash-completion/completions/basalt
  basalt completions zsh  > ~/.zfunc/_basalt
  basalt completions fish > ~/.config/fish/completions/basalt.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script to the standard output.
pub(crate) fn run(args: CompletionsArgs, command: &mut clap::Command) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "basalt", &mut script);
    io::stdout().write_all(&script)
}
