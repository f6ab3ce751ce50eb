//! Sets of all kinds under tag 0x02.

#![no_main]

use basalt_sip::Tag;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| basalt_sip_fuzz::encode(Tag::VarintDelta, data));
