//! Compiles `basalt/v1/*.proto` with protox, so that no protoc is needed.

use std::{env, fs, path::PathBuf};

use prost::Message as _;

const PROTOS: &[&str] = &[
    "basalt/v1/types.proto",
    "basalt/v1/filter.proto",
    "basalt/v1/catalog.proto",
    "basalt/v1/ingest.proto",
    "basalt/v1/query.proto",
    "basalt/v1/sip.proto",
    "basalt/v1/error.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=basalt");
    let descriptors = protox::compile(PROTOS, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("basalt.bin"), descriptors.encode_to_vec())?;
    // `bytes::Bytes` where a field can be large: decoding then shares the message's buffer.
    tonic_prost_build::configure()
        .bytes(".basalt.v1.Batch.arrow_ipc")
        .bytes(".basalt.v1.QueryResponse.arrow_ipc")
        .bytes(".basalt.v1.RowSet.sip")
        .bytes(".basalt.v1.KeySet.sip")
        .bytes(".basalt.v1.SelectResponse.sip")
        .bytes(".basalt.v1.PutSipRequest.sip")
        .bytes(".basalt.v1.GetSipResponse.sip")
        .compile_fds(descriptors)?;
    Ok(())
}
