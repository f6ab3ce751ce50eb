//! Bodies of tag 0x01, read by the roaring libraries, too.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| basalt_sip_fuzz::libraries(data));
