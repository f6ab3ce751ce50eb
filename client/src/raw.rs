//! Where the API's own messages, and the libraries that carry them, show: requests made elsewhere, other services of the
//! same server, and conversions between this crate's types and the messages.
//!
//! A function that takes or gives a type of `tonic`, of `prost` or of [`proto`](crate::proto) is listed here, stands in
//! [`convert`](crate::convert), or reads SQL into a request (the module `sql`); every other has types of this crate. What is
//! listed goes with the versions of those libraries: [`tonic`] and [`prost`] are them.
//!
//! - [`Client::from_channel`], [`Client::channel`]: the connection itself.
//! - [`Client::query_of`], [`Client::select_of`], [`Query::request`]: requests as messages.
//! - [`Literal::kind`], and `From` between [`Expr`](crate::Expr), [`Filter`](crate::Filter),
//!   [`OrderBy`](crate::OrderBy), [`Literal`] and their messages; from the messages of answers, what this crate gives for
//!   them, such as [`Plan`](crate::Plan).
//! - [`Code`] and [`ErrorReason`] equal those of `tonic` and of the messages, and `From` goes both ways.

use basalt_proto::v1;
pub use prost;
pub use tonic;
use tonic::transport::Channel;

use crate::{
    client::Client,
    expr::Literal,
    hosts::Hosts,
    options::ClientOptions,
    query::Query,
    reason::{Code, ErrorReason},
    set::{Ids, Select},
};

impl Client {
    /// A client over a channel made elsewhere; `address` is only for messages. See [`raw`](crate::raw).
    pub fn from_channel(channel: Channel, address: &str) -> Self {
        Self::of_hosts(Hosts::of_channel(channel, address), ClientOptions::default(), None)
    }

    /// The channel to the server that is asked now, for its other services; interceptors and keys do not go with what is
    /// sent over it. See [`raw`](crate::raw).
    pub fn channel(&self) -> Channel {
        self.host().channel.clone()
    }

    /// A query from a request made elsewhere. See [`raw`](crate::raw).
    pub fn query_of(&self, request: v1::QueryRequest) -> Query {
        Query::of_request(self.clone(), request)
    }

    /// A selection from a request made elsewhere. See [`raw`](crate::raw).
    pub fn select_of(&self, request: v1::SelectRequest) -> Select<Ids> {
        Select::of_request(self.clone(), request)
    }
}

impl Query {
    /// The request as it will be sent. See [`raw`](crate::raw).
    pub fn request(&self) -> &v1::QueryRequest {
        self.message()
    }
}

impl Literal {
    /// The API's message; `None` for SQL's NULL. See [`raw`](crate::raw).
    pub fn kind(&self) -> Option<&v1::value::Kind> {
        self.message().kind.as_ref().filter(|kind| !matches!(kind, v1::value::Kind::Null(_)))
    }
}

impl PartialEq<v1::ErrorReason> for ErrorReason {
    fn eq(&self, other: &v1::ErrorReason) -> bool {
        *self == Self::from(*other)
    }
}

impl PartialEq<tonic::Code> for Code {
    fn eq(&self, other: &tonic::Code) -> bool {
        *self == Self::from(*other)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    /// What a signature may not name outside of the modules that say so.
    const THEIRS: [&str; 6] = ["v1::", "pb::", "tonic::", "prost::", "Channel", "Streaming"];
    /// Those modules, and the command line, which is no library.
    const APART: [&str; 4] = ["raw.rs", "convert.rs", "sql", "cli"];

    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            match path.is_dir() {
                _ if APART.contains(&name) => {}
                true => walk(&path, files),
                false => files.push(path),
            }
        }
    }

    #[test]
    fn no_other_signature_shows_the_libraries_below() {
        let (mut files, mut signatures) = (Vec::new(), 0);
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let lines: Vec<&str> = code.lines().collect();
            for (i, line) in lines.iter().enumerate().filter(|(_, line)| line.trim().starts_with("pub ")) {
                let rest = if line.contains("fn ") {
                    lines[i..].iter().position(|line| line.contains('{'))
                } else {
                    None
                };
                let signature = lines[i..=i + rest.unwrap_or(0)].join(" ");
                signatures += 1;
                let is_meant = signature.starts_with("pub use basalt_proto::v1 as proto")
                    || signature.starts_with("pub struct ") && !signature.contains("(pub ");
                let shows = THEIRS.iter().find(|name| signature.contains(*name));
                assert!(shows.is_none() || is_meant, "{}:{}: {signature}", file.display(), i + 1);
            }
        }
        assert!(signatures > 300, "{signatures} signatures: are they still found?");
    }
}
