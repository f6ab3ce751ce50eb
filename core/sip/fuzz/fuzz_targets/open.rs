//! Any bytes: what is accepted is canonical, and answers as its ids do.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| basalt_sip_fuzz::open(data));
