//! Basalt's gRPC API: the messages, clients and servers generated from `basalt/v1/*.proto`.
//!
//! The `.proto` files are the documentation of the API; this crate adds nothing to them.

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

/// The encoded `google.protobuf.FileDescriptorSet` of the API, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/basalt.bin"));
