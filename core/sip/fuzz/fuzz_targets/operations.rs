//! Two sets under any tags: what is made of them.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| basalt_sip_fuzz::operations(data));
