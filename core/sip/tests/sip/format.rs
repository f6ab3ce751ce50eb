//! The examples of FORMAT.md are true.

use basalt_sip::{Limits, Sip};

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

/// Ids as FORMAT.md writes them: `1, 5..8, 2^32`; a range has no id at its end.
fn ids(text: &str) -> Vec<u64> {
    let number = |text: &str| match text.trim().split_once('^') {
        Some((base, power)) => base.parse::<u64>().unwrap().pow(power.parse().unwrap()),
        None => text.trim().parse().unwrap(),
    };
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| match part.split_once("..") {
            Some((start, end)) => number(start)..number(end),
            None => number(part)..number(part) + 1,
        })
        .collect()
}

#[test]
fn examples_are_read_as_the_sets_beside_them() {
    let mut examples = 0;
    let mut lines = include_str!("../../FORMAT.md").lines().peekable();
    while let Some(line) = lines.next() {
        let Some(set) = line.strip_prefix("set") else { continue };
        let mut bytes = Vec::new();
        // Behind `#` stands what the bytes mean.
        while let Some(line) = lines.next_if(|line| line.starts_with("    ")) {
            bytes.extend(hex(line.split('#').next().unwrap()));
        }
        let sip = Sip::from_bytes(bytes, &Limits::default()).unwrap_or_else(|error| panic!("{set}: {error}"));
        assert_eq!(sip.iter().collect::<Vec<_>>(), ids(set), "{set}");
        examples += 1;
    }
    assert_eq!(examples, 8);
}
