//! Sets of all kinds under tag 0x03.

#![no_main]

use basalt_sip::Tag;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| basalt_sip_fuzz::encode(Tag::Ranges, data));
