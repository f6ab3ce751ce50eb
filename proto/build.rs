//! Compiles `basalt/v1/*.proto` and `basalt/cluster/v1/*.proto` with protox, so that no protoc is needed.

use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::PathBuf};

use prost::Message as _;
use protox::prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MethodDescriptor};

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

/// `bytes::Bytes` where a field can be large: decoding then shares the message's buffer.
const SHARED: &[&str] = &[
    ".basalt.v1.Batch.arrow_ipc",
    ".basalt.v1.QueryResponse.arrow_ipc",
    ".basalt.v1.RowSet.sip",
    ".basalt.v1.KeySet.sip",
    ".basalt.v1.SelectResponse.sip",
    ".basalt.v1.PutSipRequest.sip",
    ".basalt.v1.GetSipResponse.sip",
    ".basalt.cluster.v1.ExecuteRequest.data",
    ".basalt.cluster.v1.ExecuteResponse.partial",
    ".basalt.cluster.v1.FetchSipResponse.sip",
    ".basalt.cluster.v1.ReadTaskResponse.rows",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=basalt");
    let descriptors = protox::compile(PROTOS, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("basalt.bin"), descriptors.encode_to_vec())?;
    let descriptors = protox::compile(PROTOS.iter().chain(PEER_PROTOS), ["."])?;
    fs::write(out.join("peer.bin"), descriptors.encode_to_vec())?;
    fs::write(
        out.join("shapes.rs"),
        shapes(&DescriptorPool::from_file_descriptor_set(descriptors.clone())?)?,
    )?;
    SHARED
        .iter()
        .fold(tonic_prost_build::configure(), |builder, path| builder.bytes(path))
        .compile_fds(descriptors)?;
    Ok(())
}

/// What messages that are asked with take in memory, as Rust: a static for each and for those in it, and which of them a
/// method is asked with.
fn shapes(pool: &DescriptorPool) -> Result<String, Box<dyn std::error::Error>> {
    let name = |message: &str| message.replace('.', "_").to_uppercase();
    let methods: Vec<_> = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let mut asked: Vec<_> = methods.iter().map(MethodDescriptor::input).collect();
    let (mut code, mut done) = (String::new(), BTreeSet::new());
    while let Some(message) = asked.pop() {
        let full_name = message.full_name();
        if !done.insert(full_name.to_owned()) {
            continue;
        }
        let mut fields: Vec<_> = message.fields().collect();
        fields.sort_by_key(FieldDescriptor::number);
        if fields.len() > 64 {
            return Err(format!("{full_name} has more fields than there are bits to tell of").into());
        }
        let path = full_name.strip_prefix("basalt.").ok_or("a message of another package")?;
        let path = format!("crate::{}", path.replace('.', "::"));
        writeln!(code, "static {}: Shape = Shape {{", name(full_name))?;
        writeln!(code, "    size: size_of::<{path}>(),\n    fields: &[")?;
        for field in fields {
            let holds = match field.kind() {
                Kind::Message(of) => {
                    asked.push(of.clone());
                    format!("Holds::Message(&{})", name(of.full_name()))
                }
                Kind::String => "Holds::Bytes { copied: true }".to_owned(),
                Kind::Bytes => {
                    let copied = !SHARED.contains(&&*format!(".{}", field.full_name()));
                    format!("Holds::Bytes {{ copied: {copied} }}")
                }
                Kind::Bool => "Holds::Varint(1)".to_owned(),
                Kind::Int32 | Kind::Sint32 | Kind::Uint32 | Kind::Enum(_) => "Holds::Varint(4)".to_owned(),
                Kind::Int64 | Kind::Sint64 | Kind::Uint64 => "Holds::Varint(8)".to_owned(),
                Kind::Fixed32 | Kind::Sfixed32 | Kind::Float => "Holds::Fixed(4)".to_owned(),
                Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => "Holds::Fixed(8)".to_owned(),
            };
            let (number, repeated) = (field.number(), field.is_list());
            writeln!(code, "        Field {{ number: {number}, repeated: {repeated}, holds: {holds} }},")?;
        }
        writeln!(code, "    ],\n}};\n")?;
    }
    writeln!(code, "fn find(service: &str, method: &str) -> Option<&'static Shape> {{")?;
    writeln!(code, "    Some(match (service, method) {{")?;
    for method in methods {
        let (service, asked) = (method.parent_service().full_name().to_owned(), method.input());
        writeln!(code, "        ({service:?}, {:?}) => &{},", method.name(), name(asked.full_name()))?;
    }
    writeln!(code, "        _ => return None,\n    }})\n}}")?;
    Ok(code)
}
