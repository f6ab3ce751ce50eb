//! Basalt's gRPC API: the messages, clients and servers generated from `basalt/v1/*.proto`, and those that the
//! nodes of a cluster exchange from `basalt/cluster/v1/*.proto`.
//!
//! The `.proto` files are the documentation of the API; this crate adds to them what messages take in memory ([`shapes`]).

pub mod shapes;

/// Package `basalt.v1`: the public API.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
pub mod v1 {
    tonic::include_proto!("basalt.v1");
}

/// Package `basalt.cluster.v1`: what the nodes of a cluster say to each other, on a port of its own.
pub mod cluster {
    #[allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::allow_attributes_without_reason,
        reason = "generated"
    )]
    pub mod v1 {
        tonic::include_proto!("basalt.cluster.v1");
    }
}

/// The encoded `google.protobuf.FileDescriptorSet` of the API, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/basalt.bin"));

/// The same, with what the nodes of a cluster say to each other.
pub const PEER_FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/peer.bin"));
