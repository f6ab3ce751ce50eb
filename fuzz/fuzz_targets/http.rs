#![no_main]

libfuzzer_sys::fuzz_target!(init: basalt_fuzz::begin("http"), |data: &[u8]| basalt_fuzz::run(data));
