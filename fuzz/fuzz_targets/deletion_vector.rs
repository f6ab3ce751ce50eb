#![no_main]

libfuzzer_sys::fuzz_target!(init: basalt_fuzz::begin("deletion_vector"), |data: &[u8]| basalt_fuzz::run(data));
