//! Compiles `basalt/v1/*.proto` and `basalt/cluster/v1/*.proto` with protox, so that no protoc is needed.

use std::{env, fs, path::PathBuf};

use prost::Message as _;

const PROTOS: &[&str] = &[
    "basalt/v1/types.proto",
    "basalt/v1/filter.proto",
    "basalt/v1/catalog.proto",
    "basalt/v1/ingest.proto",
    "basalt/v1/query.proto",
    "basalt/v1/sql.proto",
    "basalt/v1/sip.proto",
    "basalt/v1/cluster.proto",
    "basalt/v1/error.proto",
];

/// What nodes say to each other: no part of the API that reflection shows.
const PEER_PROTOS: &[&str] = &["basalt/cluster/v1/peer.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=basalt");
    let descriptors = protox::compile(PROTOS, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("basalt.bin"), descriptors.encode_to_vec())?;
    let descriptors = protox::compile(PROTOS.iter().chain(PEER_PROTOS), ["."])?;
    fs::write(out.join("peer.bin"), descriptors.encode_to_vec())?;
    // `bytes::Bytes` where a field can be large: decoding then shares the message's buffer.
    tonic_prost_build::configure()
        .bytes(".basalt.v1.Batch.arrow_ipc")
        .bytes(".basalt.v1.QueryResponse.arrow_ipc")
        .bytes(".basalt.v1.RowSet.sip")
        .bytes(".basalt.v1.KeySet.sip")
        .bytes(".basalt.v1.SelectResponse.sip")
        .bytes(".basalt.v1.PutSipRequest.sip")
        .bytes(".basalt.v1.GetSipResponse.sip")
        .bytes(".basalt.cluster.v1.ExecuteRequest.data")
        .bytes(".basalt.cluster.v1.ExecuteResponse.partial")
        .bytes(".basalt.cluster.v1.FetchSipResponse.sip")
        .bytes(".basalt.cluster.v1.ReadTaskResponse.rows")
        .compile_fds(descriptors)?;
    Ok(())
}
