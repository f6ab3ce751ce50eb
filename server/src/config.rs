//! The configuration: defaults, then a file (TOML), then environment variables, then flags.

mod flags;
mod secure;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use basalt_core::similar::hint;
use serde::{Deserialize, Serialize};

pub use flags::Flags;

use crate::{
    Error, limits,
    units::{self, Memory},
};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Which SQL statements run as tasks on all nodes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Distribute {
    /// Those that join, group or sort many rows.
    Large,
    /// All that can be, for tests.
    Always,
    /// None.
    Never,
}

#[cfg(feature = "sql")]
impl From<Distribute> for basalt_sql::distributed::Distribution {
    fn from(distribute: Distribute) -> Self {
        match distribute {
            Distribute::Large => Self::Large,
            Distribute::Always => Self::Always,
            Distribute::Never => Self::Never,
        }
    }
}

/// The configuration of a server; `deploy/config.toml` shows every key with its default.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    #[serde(deserialize_with = "units::listen")]
    pub listen: SocketAddr,
    /// Where HTTP is served: metrics and probes (`/metrics`, `/healthz`, `/readyz`), statements and tables (`/v1/sql`,
    /// `/v1/tables`); `None`: nowhere.
    #[serde(deserialize_with = "units::optional_listen")]
    pub metrics_listen: Option<SocketAddr>,
    /// Where clients of PostgreSQL are served, by a build with the feature `sql`; `None`: nowhere.
    #[serde(deserialize_with = "units::optional_listen")]
    pub postgres: Option<SocketAddr>,
    /// Which log lines are written: a level, or more in the syntax of `tracing`'s `EnvFilter`.
    pub log: String,
    /// How they look.
    pub log_format: LogFormat,
    /// Where tables are kept: a directory, `s3://bucket/prefix`, or `memory:` for none on storage.
    pub store: String,
    /// A folder on a local disk for encoded columns of tables of a store; `None`: nowhere, and a start encodes again what
    /// it reads. Losing it loses nothing.
    pub cache: Option<PathBuf>,
    /// How many bytes it may take.
    #[serde(deserialize_with = "units::bytes")]
    pub cache_size: u64,
    /// How long after the last commit of a table small writes share the next; one that comes later goes at once.
    #[serde(deserialize_with = "units::duration")]
    pub commit_delay: Duration,
    /// How long versions of a table, and the files that they need, stay after the next version; of more than 4,096, the
    /// newest of them.
    #[serde(deserialize_with = "units::duration")]
    pub keep_versions: Duration,
    /// Threads for queries and encoding; 0: as many as the machine has cores.
    pub threads: usize,
    /// Memory for columns, queries, writes under way, kept sets and requests that arrive; a share is of the machine's, or
    /// of the least limit of its control groups. Tables may be larger.
    pub memory: Memory,
    /// How much of it kept sets may take; a share is of `memory`.
    pub kept_sets: Memory,
    /// How much of it faster forms of columns may take that queries read often, while nobody else needs it; a share is of
    /// `memory`.
    pub elastic: Memory,
    /// Long queries that run at once, and as many short ones; 0: four for each of `threads`.
    pub concurrent_queries: usize,
    /// Which SQL statements run as tasks on all nodes of a cluster.
    pub distribute: Distribute,
    /// The deadline of a query that names none.
    #[serde(deserialize_with = "units::duration")]
    pub default_deadline: Duration,
    /// The longest deadline of a query.
    #[serde(deserialize_with = "units::duration")]
    pub max_deadline: Duration,
    /// Folders below which COPY reads and writes files of the server; none: it does not.
    pub copy_roots: Vec<PathBuf>,
    /// A folder made by `basalt secure`, whose files stand for `tls_cert`, `tls_key`, `peer_cert`, `peer_key`, `peer_ca` and
    /// `keys` where these are not said; `None`: there is none.
    pub secrets: Option<PathBuf>,
    /// The certificate that clients are shown, in PEM; `None`: no TLS.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// The authorities of certificates that clients have to show; `None`: they show none.
    pub tls_client_ca: Option<PathBuf>,
    /// The certificate that other nodes are shown, in PEM; `None`: no TLS between nodes.
    pub peer_cert: Option<PathBuf>,
    /// Its key.
    pub peer_key: Option<PathBuf>,
    /// The authority of the certificates of all nodes.
    pub peer_ca: Option<PathBuf>,
    /// The file of keys; `None`: all may do all.
    pub keys: Option<PathBuf>,
    /// Whether to listen beyond this machine without TLS or without keys.
    pub insecure: bool,
    /// Folders and prefixes below which tables of other writers may be attached; none: nothing is.
    pub attach_roots: Vec<String>,
    /// A file for what administrators do, and what is refused; `None`: it stands in the log.
    pub audit_log: Option<PathBuf>,
    /// A query that takes longer stands in the log with what it asked; zero: none does.
    #[serde(deserialize_with = "units::duration")]
    pub slow_query: Duration,
    /// Whether literals, and what errors say of what a client has sent, stand in the log, too.
    pub log_literals: bool,
    /// Whether every query and every request stands in the log, with all of that.
    pub log_queries: bool,
    /// Where spans of requests go, by OTLP over gRPC, from a build with the feature `otlp`; `None`: where
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` says, else nowhere.
    pub otlp: Option<String>,
    /// The share of traces that are recorded, of those that begin here: between 0 and 1.
    pub trace_ratio: f64,
    /// Connections open at once.
    pub max_connections: usize,
    /// How long running requests may go on after a signal to stop.
    #[serde(deserialize_with = "units::duration")]
    pub shutdown_grace: Duration,
    /// Where to listen for the other nodes of a cluster; `None`: the server is alone.
    #[serde(deserialize_with = "units::optional_listen")]
    pub peer_listen: Option<SocketAddr>,
    /// This node's name, `host:port`, by which the others reach `peer_listen` and place fragments; `None`: the
    /// address of `peer_listen`.
    pub advertise: Option<String>,
    /// The nodes of the cluster, each a `host:port` as it advertises itself, or `dns:host:port` for all addresses
    /// that a name has. This node may be among them.
    pub peers: Vec<String>,
    /// How many nodes hold each fragment.
    pub replication: usize,
    /// How long a node that no configuration names may be silent before it is no member any longer, and what was placed
    /// on it moves. What an answer covers does not depend on it.
    #[serde(deserialize_with = "units::duration")]
    pub forget_node: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7700)),
            metrics_listen: None,
            postgres: None,
            log: "info".into(),
            log_format: LogFormat::Text,
            store: limits::STORE.into(),
            cache: None,
            cache_size: limits::CACHE_SIZE.0,
            commit_delay: limits::COMMIT_DELAY,
            keep_versions: limits::KEEP_VERSIONS,
            threads: 0,
            memory: Memory::Share(limits::MEMORY_SHARE),
            kept_sets: Memory::Share(limits::KEPT_SETS_SHARE),
            elastic: Memory::Share(limits::ELASTIC_SHARE),
            concurrent_queries: 0,
            distribute: Distribute::Never,
            default_deadline: limits::DEFAULT_DEADLINE,
            max_deadline: limits::MAX_DEADLINE,
            copy_roots: Vec::new(),
            secrets: None,
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            peer_cert: None,
            peer_key: None,
            peer_ca: None,
            keys: None,
            insecure: false,
            attach_roots: Vec::new(),
            audit_log: None,
            slow_query: limits::SLOW_QUERY,
            log_literals: false,
            log_queries: false,
            otlp: None,
            trace_ratio: 1.0,
            max_connections: limits::CONNECTIONS,
            shutdown_grace: limits::SHUTDOWN_GRACE,
            peer_listen: None,
            advertise: None,
            peers: Vec::new(),
            replication: limits::REPLICATION,
            forget_node: limits::FORGET_NODE,
        }
    }
}

impl Config {
    /// The defaults, overridden by the file that `flags` names, overridden by the other `flags`.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, or a value that makes no sense, with its key.
    pub fn load(flags: &Flags) -> Result<Self, Error> {
        let wrong = |e: config::ConfigError| Error::Config(e.to_string());
        let mut builder = config::Config::builder();
        if let Some(path) = &flags.config {
            builder = builder.add_source(config::File::from(path.as_path()).format(config::FileFormat::Toml));
        }
        let file = flags.config.clone();
        let flags = config::Config::try_from(flags).map_err(wrong)?;
        let read = builder.add_source(flags).build().map_err(wrong)?;
        // Flags are of their types already: what is none of its key stands in the file.
        let config: Self = read.try_deserialize().map_err(|error| in_file(file.as_deref(), &error))?;
        config.check()?;
        Ok(config)
    }

    /// The folders of COPY, as the system names them.
    #[cfg(feature = "sql")]
    pub(crate) fn copy_roots(&self) -> Result<Vec<PathBuf>, Error> {
        let found = self.copy_roots.iter().map(|root| {
            let found = root.canonicalize().and_then(|found| match found.is_dir() {
                true => Ok(found),
                false => Err(std::io::ErrorKind::NotADirectory.into()),
            });
            found.map_err(|error| Error::Config(format!("copy_roots: {}: {error}", root.display())))
        });
        found.collect()
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |key: &str, why: &str| Err(Error::Config(format!("{key}: {why}")));
        if self.default_deadline.is_zero() || self.default_deadline > self.max_deadline {
            return refuse("default_deadline", "it is more than 0 and at most max_deadline");
        }
        if self.store.is_empty() {
            return refuse("store", "it is a directory, an address, or \"memory:\"");
        }
        if Path::new(&self.store).is_file() {
            return refuse("store", &format!("{}: it is a file, not a folder", self.store));
        }
        if self.cache.is_some() && self.store == "memory:" {
            return refuse("cache", "it is for the tables of a store, not for memory:");
        }
        if self.cache.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
            return refuse("cache", "it is a folder; left out, there is none");
        }
        if self.cache_size < limits::CACHE_SIZE.1 {
            return refuse("cache_size", "it is at least 1MiB");
        }
        if self.commit_delay > limits::LONGEST_COMMIT_DELAY {
            return refuse("commit_delay", "it is at most 10s");
        }
        if matches!(self.memory, Memory::Bytes(bytes) if bytes < limits::LEAST_MEMORY) {
            return refuse("memory", "it is at least 16MiB");
        }
        if self.otlp.as_ref().is_some_and(|url| !(url.starts_with("http://") || url.starts_with("https://")))
        {
            return refuse(
                "otlp",
                "it is an address such as \"http://127.0.0.1:4317\"; left out, there is none",
            );
        }
        if !(0.0..=1.0).contains(&self.trace_ratio) {
            return refuse("trace_ratio", "it is a share between 0 and 1");
        }
        if self.max_connections == 0 {
            return refuse("max_connections", "it is at least 1");
        }
        if self.replication == 0 {
            return refuse("replication", "it is at least 1");
        }
        if self.peer_listen.is_none() && !(self.peers.is_empty() && self.advertise.is_none()) {
            return refuse("peer_listen", "it is needed by a node of a cluster (peers, advertise)");
        }
        if let Some(name) = &self.advertise {
            check_node(name).map_err(|why| Error::Config(format!("advertise: {why}")))?;
        } else if self.peer_listen.is_some_and(|address| address.ip().is_unspecified()) {
            return refuse("advertise", "it is needed where peer_listen is no address that others can reach");
        }
        for peer in &self.peers {
            let peer = peer.strip_prefix(DNS).unwrap_or(peer);
            check_node(peer).map_err(|why| Error::Config(format!("peers: {why}")))?;
        }
        if self.peers.len() > limits::NODES {
            return refuse("peers", &format!("there are more than {}", limits::NODES));
        }
        Ok(())
    }

    /// `threads`, with 0 resolved.
    pub fn cpu_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// The name of this node in its cluster.
    pub(crate) fn node_name(&self, peers: &dyn crate::environment::Listener) -> Result<String, Error> {
        match &self.advertise {
            Some(name) => Ok(name.clone()),
            None => Ok(peers.local_addr()?.to_string()),
        }
    }

    /// `concurrent_queries`, with 0 resolved.
    pub fn query_permits(&self) -> usize {
        match self.concurrent_queries {
            0 => limits::QUERIES_PER_THREAD * self.cpu_threads(),
            queries => queries,
        }
    }
}

/// What is wrong with a file's keys and values; of a key that is none the one that may be meant.
fn in_file(file: Option<&Path>, error: &config::ConfigError) -> Error {
    let mut message = error.to_string();
    if message.starts_with("unknown field ") {
        let mut names = message.split('`').skip(1).step_by(2);
        if let Some(name) = names.next() {
            let meant = hint(name, names);
            if !meant.is_empty() {
                message = format!("unknown key {name:?}{meant}");
            }
        }
    }
    match file {
        Some(file) => Error::Config(format!("{}: {message}", file.display())),
        None => Error::Config(message),
    }
}

/// What comes before a name of which every address is a node.
pub(crate) const DNS: &str = "dns:";

/// That a text is `host:port`.
pub(crate) fn check_node(name: &str) -> Result<(), String> {
    let parts = name.rsplit_once(':').filter(|(host, port)| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
        !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    match parts {
        Some(_) if name.len() <= limits::NODE_NAME_BYTES => Ok(()),
        _ => Err(format!("{name:?} is no host:port")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn load(text: &str, flags: Flags) -> Result<Config, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("basalt.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&Flags { config: Some(path), ..flags })
    }

    #[test]
    fn the_example_shows_every_key_with_its_default() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/config.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(load(&text, Flags::default()).unwrap(), Config::default());

        let keys = |text: &str| -> BTreeSet<String> {
            text.lines()
                .filter_map(|l| Some(l.split_once(" = ")?.0.trim_start_matches("# ").to_owned()))
                .collect()
        };
        let debug = format!("{:#?}", Config::default());
        let fields: BTreeSet<String> = debug
            .lines()
            .filter_map(|l| Some(l.strip_prefix("    ")?.split_once(':')?.0.to_owned()))
            .collect();
        let fields = fields.into_iter().filter(|f| !f.starts_with(' ')).collect();
        assert_eq!(keys(&text), fields);
    }

    #[test]
    fn flags_win_over_the_file() {
        let flags = Flags {
            threads: Some(3),
            memory: Some(Memory::Bytes(1 << 30)),
            max_deadline: Some(Duration::from_millis(90_500)),
            ..Flags::default()
        };
        let text = "threads = 5\nlog_format = \"json\"\nlisten = \"[::1]:80\"\ndefault_deadline = \"2s\"";
        let config = load(text, flags).unwrap();
        assert_eq!((config.threads, config.cpu_threads(), config.query_permits()), (3, 3, 12));
        assert_eq!((config.log_format, config.memory), (LogFormat::Json, Memory::Bytes(1 << 30)));
        assert_eq!(config.listen.to_string(), "[::1]:80");
        assert_eq!(config.default_deadline, Duration::from_secs(2));
        assert_eq!(config.max_deadline, Duration::from_millis(90_500));
    }

    #[test]
    fn nodes_are_named_by_host_and_port() {
        for good in ["node1:7701", "10.0.0.1:1", "[::1]:7701", "a-b.c_d:65535"] {
            assert_eq!(check_node(good), Ok(()));
        }
        for bad in ["", "node1", ":7701", "node1:0", "node1:65536", "a/b:1", "http://a:1", &"a".repeat(300)] {
            assert!(check_node(bad).is_err(), "{bad}");
        }
        let flags = Flags {
            peer_listen: Some(SocketAddr::from(([127, 0, 0, 1], 7701))),
            peers: vec!["dns:basalt:7701".into(), "b:2".into()],
            ..Flags::default()
        };
        let config = load("peers = [\"c:3\"]\nreplication = 3", flags).unwrap();
        assert_eq!((config.peers.len(), config.replication), (2, 3));
    }

    #[test]
    fn mistakes_are_errors_that_name_the_key() {
        for (text, word) in [
            ("thread = 5", "thread"),
            ("memory = \"all\"", "memory"),
            ("default_deadline = \"soon\"", "default_deadline"),
            ("default_deadline = \"1h\"", "default_deadline"),
            ("max_connections = 0", "max_connections"),
            ("otlp = \"collector:4317\"", "otlp"),
            ("trace_ratio = 1.5", "trace_ratio"),
            ("trace_ratio = nan", "trace_ratio"),
            ("memory = \"0\"", "memory"),
            ("store = \"\"", "store"),
            ("store = \"memory:\"\ncache = \"somewhere\"", "cache"),
            ("cache = \"\"", "cache"),
            ("cache_size = \"70%\"", "cache_size"),
            ("cache_size = \"1000\"", "cache_size"),
            ("commit_delay = \"1m\"", "commit_delay"),
            ("listen = \"here\"", "listen"),
            ("listen = \"localhost:7700\"", "such as 127.0.0.1:7700"),
            ("postgres = \"5432\"", "such as 127.0.0.1:7700"),
            ("slow_query = \"abc\"", "\"abc\" is no time such as"),
            ("slow_qery = \"5s\"", "basalt.toml: unknown key \"slow_qery\"; did you mean \"slow_query\"?"),
            ("replication = 0", "replication"),
            ("peers = [\"a:1\"]", "peer_listen"),
            ("peer_listen = \"0.0.0.0:7701\"", "advertise"),
            ("peer_listen = \"127.0.0.1:7701\"\npeers = [\"a\"]", "peers"),
            ("peer_listen = \"127.0.0.1:7701\"\nadvertise = \"a b:1\"", "advertise"),
            ("log_format = \"xml\"", "xml"),
            ("threads = [", "TOML"),
        ] {
            let error = load(text, Flags::default()).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let flags = Flags { store: Some(file.path().display().to_string()), ..Flags::default() };
        let told = Config::load(&flags).unwrap_err().to_string();
        assert!(told.contains("it is a file, not a folder"), "{told}");
        let missing = Flags { config: Some("no/such/file.toml".into()), ..Flags::default() };
        assert!(Config::load(&missing).is_err());
    }
}
