//! `basalt secure`: a folder with everything that a server needs to be reached from other machines.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use basalt_client::cli::{human, style::Style};
use basalt_server::{Allowance, Authority, Error, Issued, Role};
use clap::Args;

/// Arguments of `secure`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SecureArgs {
    /// The folder, which is made if it is missing; what is there already stays
    #[arg(default_value = "secrets")]
    folder: PathBuf,

    /// Names and addresses of the server, or of all servers that share the folder
    #[arg(long = "host", value_name = "HOST", value_delimiter = ',', default_values = ["localhost", "127.0.0.1", "::1"])]
    hosts: Vec<String>,

    /// Make the server's certificate again, as before it expires; servers take it within seconds
    #[arg(long)]
    renew: bool,
}

/// Makes what is missing, and says what that is and how it is used.
///
/// # Errors
/// A host that is none, and files that cannot be written.
pub(crate) fn run(args: &SecureArgs) -> Result<(), Error> {
    let SecureArgs { folder, hosts, renew } = args;
    let authority = Authority::open(folder)?;
    if *renew || !folder.join("server.pem").exists() {
        authority.issue("server", hosts)?;
    }
    let (keys, admin) = (folder.join("keys.toml"), folder.join("admin.secret"));
    if !keys.exists() {
        let issued = Issued::new("admin", Role::Admin, &["*".to_owned()], Allowance::default())?;
        issued.write_secret(&admin)?;
        issued.add_to(&keys)?;
    }
    tell(folder, &admin, hosts)
}

fn tell(folder: &Path, admin: &Path, hosts: &[String]) -> Result<(), Error> {
    let (mut out, style) = (io::stdout(), Style::of(&io::stdout()));
    let (ca, folder) = (folder.join("ca.pem"), folder.display());
    // Default: an example of a host, where none was named.
    let host = hosts.first().map_or("localhost", String::as_str);
    let others = hosts.len().saturating_sub(1) as u64;
    let others =
        if others == 0 { String::new() } else { format!(" and {}", human::plural(others, "other name")) };
    writeln!(
        out,
        "{folder} has an authority (ca.pem, ca.key), a certificate for {host}{others} (server.pem,"
    )?;
    writeln!(
        out,
        "server.key), the key of an admin (admin.secret), and what servers know keys by (keys.toml)."
    )?;
    writeln!(out, "Keep ca.key and admin.secret to yourself.\n")?;
    writeln!(out, "{}", style.dim("# the server"))?;
    writeln!(out, "basalt serve --secrets {folder} --listen 0.0.0.0:7700\n")?;
    writeln!(out, "{}", style.dim("# its clients"))?;
    writeln!(
        out,
        "basalt tables --server https://{host}:7700 --ca {} --key-file {}\n",
        ca.display(),
        admin.display()
    )?;
    writeln!(out, "{}", style.dim("# a key for somebody who may only read some tables"))?;
    writeln!(out, "basalt key new dashboards --role reader --table 'sales_*' --file {folder}/keys.toml")?;
    Ok(())
}
