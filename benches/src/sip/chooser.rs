//! Whether the right tag is chosen, what choosing costs, and what else was published for each shape.

use std::time::Duration;

use basalt_sip::{Sip, Tag, View};

use super::{
    data::Cell,
    encoding::Encoding as _,
    ours::{limits, number},
    reference::{intervals, packed_gaps},
    rivals::RoaringRuns,
};
use crate::{table, timing::Race};

const EACH: Duration = Duration::from_millis(40);
/// The tags that any set but the empty one may have.
const TAGS: [Tag; 4] = [Tag::Roaring, Tag::VarintDelta, Tag::Ranges, Tag::Gaps];

/// Bytes under every tag, beside those of the published encodings.
pub fn size_table(cells: &[Cell]) {
    let rows = cells.iter().map(|cell| {
        let ids = &cell.ids;
        let published = [
            proven(ids, &intervals::encode(ids), intervals::decode),
            proven(ids, &packed_gaps::encode(ids), packed_gaps::decode),
            RoaringRuns::encode(ids).len(),
        ];
        let chosen = Sip::from_sorted_ids(ids);
        let sizes = TAGS.map(|tag| under(ids, tag));
        let bytes = chosen.as_bytes().len();
        let mut row = vec![cell.name.clone(), table::grouped(ids.len())];
        row.extend(published.into_iter().chain(sizes).map(table::grouped));
        row.push(number(chosen.tag()));
        row.push(ratio(bytes, sizes.into_iter().min().unwrap()));
        row.push(ratio(bytes, published.into_iter().min().unwrap()));
        row
    });
    let header = [
        "cell",
        "ids",
        "intervals",
        "packed gaps",
        "roaring + runs",
        "0x01",
        "0x02",
        "0x03",
        "0x04",
        "chosen",
        "of the best tag",
        "of the best published",
    ];
    table::print("Bytes under every tag", &header, &rows.collect::<Vec<_>>());
}

/// The time of choosing, as a share of encoding, and of reading.
pub fn time_table(cells: &[Cell]) {
    let rows = cells.iter().map(|cell| {
        let ids = &cell.ids;
        let chosen = Sip::from_sorted_ids(ids);
        let tag = chosen.tag();
        assert!(chosen == Sip::from_sorted_ids_as(tag, ids), "{}", cell.name);
        let mut race = Race::new();
        race.enter(|| Sip::from_sorted_ids(ids));
        race.enter(|| Sip::from_sorted_ids_as(tag, ids));
        race.enter(|| View::open(chosen.as_bytes(), &limits()).is_ok());
        race.enter(|| Sip::from_bytes(chosen.as_bytes(), &limits()).is_ok());
        race.enter(|| chosen.iter().fold(0, u64::wrapping_add));
        let seconds = race.run(EACH);
        let mut row =
            vec![cell.name.clone(), number(tag), format!("{:.1} %", 100.0 * (1.0 - seconds[1] / seconds[0]))];
        row.extend(seconds.into_iter().map(table::millis));
        row
    });
    let header = [
        "cell",
        "chosen",
        "choosing",
        "encode ms",
        "encode under it",
        "View::open",
        "Sip::from_bytes",
        "iter",
    ];
    table::print("What choosing costs, and reading", &header, &rows.collect::<Vec<_>>());
}

fn under(ids: &[u64], tag: Tag) -> usize {
    let sip = Sip::from_sorted_ids_as(tag, ids);
    assert!(sip.tag() == tag && sip.iter().eq(ids.iter().copied()), "{}", number(tag));
    sip.as_bytes().len()
}

/// The bytes of a published encoding, once its decoder has given the ids back.
fn proven(ids: &[u64], bytes: &[u8], decode: fn(&[u8]) -> Vec<u64>) -> usize {
    assert!(decode(bytes) == ids);
    bytes.len()
}

#[allow(clippy::cast_precision_loss, reason = "a figure to print")]
fn ratio(a: usize, b: usize) -> String {
    format!("{:.3}x", a as f64 / b as f64)
}
