//! Deletion vectors: around any bytes, around any bitmap, and of sets.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| basalt_sip_fuzz::deletion_vector(data));
