//! Any bytes as frames.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| basalt_sip_fuzz::frame(data));
