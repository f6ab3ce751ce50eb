//! Bytes that mean harm: the heap that opening them takes, and the time, beside the roaring library's.
//!
//! `cargo bench --profile dist -p basalt-benches --bench sip_hostile`. Apart from `sip` because an allocator that
//! counts slows down whoever allocates.

#![allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]

use std::time::Duration;

use basalt_benches::{
    sip::{data, ours::limits, source::put_varint},
    table,
    timing::{self, Race},
};
use basalt_sip::{Builder, Sip, Tag, View};
use peak_alloc::PeakAlloc;
use roaring::RoaringTreemap;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// What may be held before a SIP is accepted: twice its body and this.
const ALLOWANCE: usize = 64 << 10;

/// Bytes of a SIP, and whether they are one.
struct Sample {
    name: String,
    bytes: Vec<u8>,
    accepted: bool,
}

fn main() {
    let n = if timing::small() { 10_000 } else { 1_000_000 };
    heap_table(&samples(n));
    time_table(n);
}

fn samples(n: usize) -> Vec<Sample> {
    let shapes = data::shapes(n);
    let ids = |name: &str| &shapes.iter().find(|shape| shape.name == name).unwrap().ids;
    let mut samples = Vec::new();
    let mut add = |name: &str, bytes: Vec<u8>, accepted| {
        samples.push(Sample { name: name.to_owned(), bytes, accepted });
    };
    let random = &data::random(n);
    let tagged = [
        ("0x01, a bucket for each id", Sip::from_sorted_ids_as(Tag::Roaring, random)),
        ("0x01, full blocks", full_blocks(n)),
        ("0x01, half of the rows", Sip::from_sorted_ids_as(Tag::Roaring, ids("half of the rows"))),
        ("0x02, each second row", Sip::from_sorted_ids_as(Tag::VarintDelta, ids("each second row"))),
        ("0x03, runs of 64", Sip::from_sorted_ids_as(Tag::Ranges, ids("runs of 64, gaps of 64"))),
        ("0x04, each second row", Sip::from_sorted_ids_as(Tag::Gaps, ids("each second row"))),
        ("0x04, random u64", Sip::from_sorted_ids_as(Tag::Gaps, random)),
    ];
    for (name, sip) in tagged {
        let bytes = sip.as_bytes();
        add(name, bytes.to_vec(), true);
        add(&format!("{name}, last byte missing"), bytes[..bytes.len() - 1].to_vec(), false);
        add(&format!("{name}, one byte more"), [bytes, &[0]].concat(), false);
    }
    add("0x01, 2^62 buckets claimed", [&[1][..], &(1_u64 << 62).to_le_bytes(), &[0; 64]].concat(), false);
    for tag in [Tag::VarintDelta, Tag::Ranges, Tag::Gaps] {
        let mut bytes = vec![tag as u8];
        put_varint(1 << 31, &mut bytes);
        bytes.resize(4_096, 1);
        add(&format!("{:#04x}, 2^31 numbers claimed", tag as u8), bytes, false);
    }
    samples
}

/// The most ids for the fewest bytes of 0x01.
fn full_blocks(n: usize) -> Sip {
    let mut builder = Builder::new();
    builder.push_range(0, (n as u64 / 20) << 16);
    builder.finish_as(Tag::Roaring)
}

/// The most heap held while `f` runs, and what its answer holds.
fn heap<T>(f: impl FnOnce() -> T) -> (T, usize, usize) {
    HEAP.reset_peak_usage();
    let before = HEAP.current_usage();
    let answer = f();
    let (peak, held) = (HEAP.peak_usage() - before, HEAP.current_usage().saturating_sub(before));
    (answer, peak, held)
}

fn heap_table(samples: &[Sample]) {
    let rows = samples.iter().map(|sample| {
        let bytes = &sample.bytes;
        let (view, open, _) = heap(|| View::open(bytes, &limits()).is_ok());
        let (sip, peak, held) = heap(|| Sip::from_bytes(bytes.as_slice(), &limits()));
        assert!(view == sample.accepted && sip.is_ok() == sample.accepted, "{}", sample.name);
        let most = 2 * bytes.len() + ALLOWANCE;
        assert!(open <= most && peak <= most, "{}: {open} and {peak} bytes of heap", sample.name);
        drop(sip);
        // The library is given the body of a SIP that it can read, so the body that it grows from is the same.
        let rival = (bytes[0] == Tag::Roaring as u8).then(|| {
            let (answer, peak, _) = heap(|| RoaringTreemap::deserialize_from(&bytes[1..]));
            drop(answer);
            peak
        });
        vec![
            sample.name.clone(),
            table::grouped(bytes.len()),
            if sample.accepted { "accepted" } else { "rejected" }.to_owned(),
            table::grouped(open),
            table::grouped(peak),
            table::grouped(held),
            ratio(peak, bytes.len()),
            rival.map_or_else(String::new, table::grouped),
            rival.map_or_else(String::new, |rival| ratio(rival, bytes.len())),
        ]
    });
    let header = [
        "bytes",
        "length",
        "",
        "View::open: peak",
        "Sip::from_bytes: peak",
        "held after",
        "peak / length",
        "roaring: peak",
        "roaring: peak / length",
    ];
    table::print("Heap that bytes take, in bytes", &header, &rows.collect::<Vec<_>>());
}

/// Time for each byte, at sizes that grow by four.
fn time_table(n: usize) {
    let sizes = [n / 16, n / 4, n];
    let samples: Vec<Vec<Sample>> = sizes.iter().map(|&n| samples(n)).collect();
    let rows = samples[0].iter().enumerate().filter(|(_, sample)| sample.bytes.len() > 4_096).map(
        |(row, sample)| {
            let mut race = Race::new();
            for samples in &samples {
                let bytes = &samples[row].bytes;
                race.enter(|| View::open(bytes, &limits()).is_ok());
            }
            let seconds = race.run(Duration::from_millis(20));
            let nanos = seconds
                .iter()
                .zip(&samples)
                .map(|(seconds, samples)| table::figure(seconds * 1e9 / samples[row].bytes.len() as f64));
            std::iter::once(sample.name.clone()).chain(nanos).collect()
        },
    );
    let header: Vec<String> = sizes.iter().map(|&n| format!("{} ids", table::grouped(n))).collect();
    let header: Vec<&str> = std::iter::once("bytes").chain(header.iter().map(String::as_str)).collect();
    table::print("View::open, ns for each byte", &header, &rows.collect::<Vec<_>>());
}

fn ratio(a: usize, b: usize) -> String {
    format!("{:.2}x", a as f64 / b as f64)
}
