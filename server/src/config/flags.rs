//! What the command line and the environment say; each is a key of [`Config`](super::Config) too.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::Serialize;

use super::{Distribute, LogFormat};
use crate::units::{self, Memory};

/// What the command line and the environment say.
#[derive(Clone, Debug, Default, Serialize, clap::Args)]
pub struct Flags {
    /// The configuration file (TOML); an unknown key is an error
    #[arg(long, env = "BASALT_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,

    /// Where to listen [default: 127.0.0.1:7700]
    #[arg(long, env = "BASALT_LISTEN", value_name = "ADDRESS", value_parser = units::address)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,

    /// Where to serve HTTP: metrics and probes (/metrics, /healthz, /readyz), statements and tables (/v1/sql,
    /// /v1/tables) [default: nowhere]
    #[arg(long, env = "BASALT_METRICS_LISTEN", value_name = "ADDRESS", value_parser = units::address)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_listen: Option<SocketAddr>,

    /// Where to serve clients of PostgreSQL, such as psql, psycopg and JDBC; in a build with the feature sql [default:
    /// nowhere]
    #[arg(long, env = "BASALT_POSTGRES", value_name = "ADDRESS", value_parser = units::address)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgres: Option<SocketAddr>,

    /// Which log lines to write: error, warn, info, debug, or a filter such as "info,h2=debug" [default: info]
    #[arg(long, env = "BASALT_LOG", value_name = "FILTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,

    /// How log lines look [default: text]
    #[arg(long, env = "BASALT_LOG_FORMAT", value_name = "FORMAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,

    /// Where tables are kept: a directory, s3://bucket/prefix, or memory: for none on storage [default: basalt-data]
    #[arg(long, env = "BASALT_STORE", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,

    /// A folder on a local disk of this server alone for encoded columns, so that it starts fast; losing it loses
    /// nothing [default: nowhere]
    #[arg(long, env = "BASALT_CACHE", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,

    /// How much of the disk it may take, in bytes such as 100GiB [default: 10GiB]
    #[arg(long, env = "BASALT_CACHE_SIZE", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<Memory>,

    /// How long after the last commit of a table small writes share the next [default: 5ms]
    #[arg(long, env = "BASALT_COMMIT_DELAY", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "units::write_duration")]
    pub commit_delay: Option<Duration>,

    /// How long old versions of a table, and their files, are kept [default: 10m]
    #[arg(long, env = "BASALT_KEEP_VERSIONS", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "units::write_duration")]
    pub keep_versions: Option<Duration>,

    /// Threads for queries and encoding [default: 0 = one a core]
    #[arg(long, env = "BASALT_THREADS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,

    /// Memory for columns, queries, writes, kept sets and requests, of which tables may be larger: a share of the machine's
    /// or its control group's, or bytes such as 12GiB [default: 70%]
    #[arg(long, env = "BASALT_MEMORY", value_name = "AMOUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,

    /// How much of it the sets take that clients keep: a share of it, or bytes such as 512MiB [default: 6%]
    #[arg(long, env = "BASALT_KEPT_SETS", value_name = "AMOUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_sets: Option<Memory>,

    /// How much of it, while nothing else needs it, makes columns faster that queries read often: a share of it, or bytes;
    /// 0: none [default: 50%]
    #[arg(long, env = "BASALT_ELASTIC", value_name = "AMOUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Memory>,

    /// Queries that run at once [default: 0 = four a thread]
    #[arg(long, env = "BASALT_CONCURRENT_QUERIES", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_queries: Option<usize>,

    /// Which SQL statements run as tasks on all nodes of a cluster: those that join, group or sort many rows, all that can
    /// be, or none [default: never]
    #[arg(long, env = "BASALT_DISTRIBUTE", value_name = "WHICH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribute: Option<Distribute>,

    /// The deadline of a query that names none [default: 30s]
    #[arg(long, env = "BASALT_DEFAULT_DEADLINE", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "units::write_duration")]
    pub default_deadline: Option<Duration>,

    /// The longest deadline of a query [default: 10m]
    #[arg(long, env = "BASALT_MAX_DEADLINE", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "units::write_duration")]
    pub max_deadline: Option<Duration>,

    /// A folder below which COPY reads and writes files of the server; may be given more than once [default: none]
    #[arg(long = "copy-root", env = "BASALT_COPY_ROOTS", value_name = "DIR", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copy_roots: Vec<PathBuf>,

    /// A folder made by `basalt secure`: TLS for clients and between nodes, and a key for each client [default: none]
    #[arg(long, env = "BASALT_SECRETS", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<PathBuf>,

    /// TLS for clients: the server's certificate and those that lead to its authority, in PEM [default: no TLS]
    #[arg(long, env = "BASALT_TLS_CERT", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,

    /// Its key, in PEM
    #[arg(long, env = "BASALT_TLS_KEY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,

    /// The authorities, in PEM, of certificates that clients have to show [default: they show none]
    #[arg(long, env = "BASALT_TLS_CLIENT_CA", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_client_ca: Option<PathBuf>,

    /// TLS between nodes: this node's certificate, in PEM, with its name in it [default: no TLS]
    #[arg(long, env = "BASALT_PEER_CERT", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_cert: Option<PathBuf>,

    /// Its key, in PEM
    #[arg(long, env = "BASALT_PEER_KEY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_key: Option<PathBuf>,

    /// The authority, in PEM, of the certificates of all nodes
    #[arg(long, env = "BASALT_PEER_CA", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_ca: Option<PathBuf>,

    /// The file of keys, which `basalt key new` writes to: whoever has none may do nothing [default: all may do all]
    #[arg(long, env = "BASALT_KEYS", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<PathBuf>,

    /// Listen for other machines without TLS or without keys: whoever reaches the server may do everything
    #[arg(long, env = "BASALT_INSECURE", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,

    /// A folder or an s3:// prefix below which tables may be attached; may be given more than once [default: none]
    #[arg(long = "attach-root", env = "BASALT_ATTACH_ROOTS", value_name = "URL", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attach_roots: Vec<String>,

    /// A file that takes a line of JSON for each administrative call, and each that was refused [default: the log]
    #[arg(long, env = "BASALT_AUDIT_LOG", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_log: Option<PathBuf>,

    /// A query that takes longer stands in the log, with what it asked; 0s: none does [default: 5s]
    #[arg(long, env = "BASALT_SLOW_QUERY", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "units::write_duration")]
    pub slow_query: Option<Duration>,

    /// Log literals, such as those of slow queries, not a ? for each, and what errors say of what a client has sent
    #[arg(long, env = "BASALT_LOG_LITERALS", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_literals: bool,

    /// Log every query and every request, with literals; keys are never logged
    #[arg(long, env = "BASALT_LOG_QUERIES", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_queries: bool,

    /// Where spans of requests go, such as http://127.0.0.1:4317, by OTLP over gRPC; in a build with the feature otlp
    /// [default: OTEL_EXPORTER_OTLP_ENDPOINT, else nowhere]
    #[arg(long, env = "BASALT_OTLP", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<String>,

    /// The share of traces that are recorded, of those that begin here [default: 1]
    #[arg(long, env = "BASALT_TRACE_RATIO", value_name = "SHARE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_ratio: Option<f64>,

    /// Connections open at once [default: 4096]
    #[arg(long, env = "BASALT_MAX_CONNECTIONS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<usize>,

    /// How long running requests may go on after a signal to stop [default: 30s]
    #[arg(long, env = "BASALT_SHUTDOWN_GRACE", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "units::write_duration")]
    pub shutdown_grace: Option<Duration>,

    /// Where to listen for the other nodes of a cluster [default: nowhere, the server is alone]
    #[arg(long, env = "BASALT_PEER_LISTEN", value_name = "ADDRESS", value_parser = units::address)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_listen: Option<SocketAddr>,

    /// This node's name, by which the others reach it [default: the address of --peer-listen]
    #[arg(long, env = "BASALT_ADVERTISE", value_name = "HOST:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,

    /// The nodes of the cluster: a list of host:port, or dns:host:port for all addresses of a name
    #[arg(long, env = "BASALT_PEERS", value_name = "NODES", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,

    /// How many nodes hold each fragment [default: 2]
    #[arg(long, env = "BASALT_REPLICATION", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication: Option<usize>,

    /// How long a node that is not among --peers may be silent before its fragments move [default: 10m]
    #[arg(long, env = "BASALT_FORGET_NODE", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "units::write_duration")]
    pub forget_node: Option<Duration>,
}
