//! `basalt secure`: a folder with everything that a server needs to be reached from other machines.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use basalt_client::cli::style::Style;
use basalt_server::{Allowance, Authority, Error, Issued, Role};
use clap::Args;

/// Arguments of `secure`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SecureArgs {
    /// The folder, which is made if it is missing; what is there already stays
    #[arg(default_value = "secrets")]
    folder: PathBuf,

    /// A name or an address by which clients reach the server, or one of all servers that share the folder; may be given
    /// more than once. A certificate that is there gets other names with --renew, and then has these alone
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
    let certificate = *renew || !folder.join("server.pem").exists();
    if certificate {
        authority.issue("server", hosts)?;
    }
    let (keys, admin) = (folder.join("keys.toml"), folder.join("admin.secret"));
    let key = !keys.exists();
    if key {
        let issued = Issued::new("admin", Role::Admin, &["*".to_owned()], Allowance::default())?;
        issued.write_secret(&admin)?;
        issued.add_to(&keys)?;
    }
    tell(folder, &admin, &made(certificate, key, hosts), hosts)
}

/// What was done to the folder.
fn made(certificate: bool, key: bool, hosts: &[String]) -> String {
    let mut said = match certificate {
        true => format!("The certificate is new; it is for {}.\n", hosts.join(", ")),
        false => "The certificate was there, and is what it was: --renew --host NAME makes it again, for other names.\n"
            .to_owned(),
    };
    if !certificate && !key {
        said.push_str("Nothing was changed.\n");
    }
    said
}

fn tell(folder: &Path, admin: &Path, made: &str, hosts: &[String]) -> Result<(), Error> {
    let (mut out, style) = (io::stdout(), Style::of(&io::stdout()));
    let (ca, folder) = (folder.join("ca.pem"), folder.display());
    // Default: an example of a host, where none was named.
    let host = hosts.first().map_or("localhost", String::as_str);
    writeln!(
        out,
        "{folder} has an authority (ca.pem, ca.key), a certificate (server.pem, server.key), the key"
    )?;
    writeln!(out, "of an admin (admin.secret), and what servers know keys by (keys.toml).")?;
    write!(out, "{made}")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_there_is_said_to_be_what_it_was() {
        let hosts = ["localhost".to_owned(), "db1.example.org".to_owned()];
        assert!(made(true, true, &hosts).contains("localhost, db1.example.org"));
        let kept = made(false, false, &hosts);
        assert!(kept.contains("Nothing was changed") && !kept.contains("db1"), "{kept}");
        assert!(!made(false, true, &hosts).contains("Nothing was changed"));
    }
}
