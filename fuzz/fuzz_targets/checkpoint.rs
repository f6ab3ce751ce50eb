#![no_main]

libfuzzer_sys::fuzz_target!(init: basalt_fuzz::begin("checkpoint"), |data: &[u8]| basalt_fuzz::run(data));
