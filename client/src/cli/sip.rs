//! `basalt sip`: files of sets, without a server.

use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    CliError,
    describe::literal_text,
    grid::Grid,
    human, print,
    sets::{self, bits_per_id, scope_text},
    style::Style,
};
use crate::{
    expr::Literal,
    set::{Ids, Set},
    sip::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Sip, Tag},
    types::type_name,
};

/// Ids that are shown.
const SHOWN: usize = 10;
/// The largest set that is written in every encoding to compare them.
const MAX_COMPARED: u64 = 1 << 26;

/// What to do with a file.
#[derive(Clone, Debug, Subcommand)]
pub enum SipCommand {
    /// Check a file that `basalt select` wrote, and show what it holds
    Inspect(InspectArgs),
}

/// Arguments of `sip inspect`.
#[derive(Args, Clone, Debug)]
pub struct InspectArgs {
    /// The file
    pub file: PathBuf,

    /// As one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(command: &SipCommand) -> Result<(), CliError> {
    let SipCommand::Inspect(args) = command;
    let set = sets::read(&args.file)?;
    let facts = Facts::of(set)?;
    print(&if args.json { facts.json(&args.file) } else { facts.text(&args.file) })
}

/// What a set is.
struct Facts {
    set: Set<Ids>,
    sip: Sip,
    ranges: u64,
    /// Bytes under every tag that can hold the set, where it was tried.
    sizes: Vec<(Tag, u64)>,
}

impl Facts {
    fn of(set: Set<Ids>) -> Result<Self, CliError> {
        let sip = set.sip()?;
        let (ranges, sizes) = (ranges(&sip), sizes(&sip));
        Ok(Self { set, sip, ranges, sizes })
    }

    fn text(&self, file: &Path) -> String {
        let Self { set, sip, .. } = self;
        let style = Style::of(&std::io::stdout());
        let heading = format!("{} {}", human::count(sip.cardinality()), scope_text(set));
        let mut encodings = Grid::new([("tag", false), ("bytes", true), ("bits/id", true), ("", false)]);
        for (tag, bytes) in &self.sizes {
            let this = if *tag == sip.tag() { "this file" } else { "" };
            let bits = bits_per_id(*bytes, sip.cardinality());
            encodings.row([tag.to_string(), human::bytes(*bytes), bits, this.to_owned()]);
        }
        let what = if set.of == Ids::Rows { "ids" } else { "values" };
        let mut ids = Grid::new([("ranges", true), ("first", true), ("last", true), (what, false)]);
        let shown = |id: Option<u64>| id.map_or_else(|| "-".to_owned(), |id| id_text(&set.of, id));
        let mut first: Vec<_> = sip.iter().take(SHOWN).map(|id| id_text(&set.of, id)).collect();
        if sip.cardinality() > SHOWN as u64 {
            first.push("…".to_owned());
        }
        ids.row([human::count(self.ranges), shown(sip.first()), shown(sip.last()), first.join(" ")]);
        let file = style.bold(&file.display().to_string());
        format!("{file}  {}\n\n{}\n{}", style.dim(&heading), encodings.render(), ids.render())
    }

    fn json(&self, file: &Path) -> String {
        let Self { set, sip, .. } = self;
        let key = match &set.of {
            Ids::Rows => None,
            Ids::Keys(keys) => Some(json!({
                "column": keys.column, "type": type_name(&keys.data_type), "has_null": keys.has_null,
            })),
        };
        let sizes: serde_json::Map<_, _> =
            self.sizes.iter().map(|(tag, bytes)| (tag.to_string(), (*bytes).into())).collect();
        let facts = json!({
            "file": file.display().to_string(),
            "scope": { "table": set.table, "version": set.version, "key": key },
            "tag": sip.tag().to_string(),
            "bytes": sip.as_bytes().len(),
            "cardinality": sip.cardinality(),
            "ranges": self.ranges,
            "first": sip.first(),
            "last": sip.last(),
            "first_ids": sip.iter().take(SHOWN).collect::<Vec<_>>(),
            "bytes_by_tag": sizes,
        });
        format!("{facts:#}\n")
    }
}

/// The number of intervals that no other id touches.
fn ranges(sip: &Sip) -> u64 {
    let mut masks = sip.view().masks();
    let mut words = [0; BLOCK_WORDS];
    let mut ranges = 0;
    // The block behind the one before, if a range reaches its end.
    let mut continued = None;
    while let Some((base, mask)) = masks.next(&mut words) {
        let mut before = u64::from(continued == Some(base));
        if mask == BlockMask::Full {
            ranges += 1 - before;
            before = 1;
        } else {
            for word in words {
                ranges += u64::from((word & !(word << 1 | before)).count_ones());
                before = word >> 63;
            }
        }
        continued = base.checked_add(BLOCK_IDS).filter(|_| before == 1);
    }
    ranges
}

/// Bytes of the set under every tag.
fn sizes(sip: &Sip) -> Vec<(Tag, u64)> {
    if sip.cardinality() == 0 || sip.cardinality() > MAX_COMPARED {
        return vec![(sip.tag(), sip.as_bytes().len() as u64)];
    }
    let tags = Tag::ALL.into_iter().filter(|tag| *tag != Tag::Empty);
    tags.map(|tag| (tag, sip.to_tag(tag).as_bytes().len() as u64)).collect()
}

/// An id as the row's address, or the value, that it is.
fn id_text(of: &Ids, id: u64) -> String {
    let Ids::Keys(keys) = of else { return id.to_string() };
    let signed = id.cast_signed();
    let value = match keys.data_type {
        DataType::Boolean => (id != 0).into(),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => id.into(),
        DataType::Date32 => i32::try_from(signed).map_or_else(|_| signed.into(), Literal::date),
        DataType::Timestamp(..) => Literal::timestamp(signed),
        DataType::Decimal128(_, scale) => Literal::decimal(signed, u32::from(scale.unsigned_abs())),
        _ => signed.into(),
    };
    literal_text(&value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::Keys;

    fn facts(of: Ids, ids: &[u64]) -> Facts {
        Facts::of(Set::new("t", 3, of, &Sip::from_sorted_ids(ids))).unwrap()
    }

    fn values(data_type: DataType) -> Ids {
        Ids::Keys(Keys { column: "k".to_owned(), data_type, has_null: true })
    }

    #[test]
    fn files_of_rows_and_of_values() {
        let rows = facts(Ids::Rows, &(0..100_000).chain([1 << 32]).collect::<Vec<_>>());
        let expected = "\
late.sip  100,001 rows of t, version 3

  tag             bytes  bits/id
  roaring          60 B    0.005
  varint-delta   100 kB    8.001
  ranges           18 B    0.001  this file
  gaps          13.3 kB    1.064

  ranges  first        last  ids
       2      0  4294967296  0 1 2 3 4 5 6 7 8 9 …
";
        assert_eq!(rows.text(Path::new("late.sip")), expected);
        let days = facts(values(DataType::Date32), &[15_890, 15_891, u64::MAX]);
        let expected = "\
days.sip  3 values and null of t.k (date32), version 3

  tag           bytes  bits/id
  roaring        55 B  146.667
  varint-delta   15 B   40.000  this file
  ranges         20 B   53.333
  gaps           20 B   53.333

  ranges       first        last  values
       2  2013-07-04  1969-12-31  2013-07-04 2013-07-05 1969-12-31
";
        assert_eq!(days.text(Path::new("days.sip")), expected);
        let none = facts(Ids::Rows, &[]);
        let expected = "\
none.sip  0 rows of t, version 3

  tag    bytes  bits/id
  empty    1 B        -  this file

  ranges  first  last  ids
       0      -     -
";
        assert_eq!(none.text(Path::new("none.sip")), expected);
        let json: serde_json::Value = serde_json::from_str(&days.json(Path::new("days.sip"))).unwrap();
        assert_eq!(
            json["scope"],
            json!({ "table": "t", "version": 3, "key": { "column": "k", "type": "date32", "has_null": true } })
        );
        assert_eq!((&json["cardinality"], &json["ranges"]), (&3.into(), &2.into()));
        assert_eq!(json["first_ids"], json!([15_890, 15_891, u64::MAX]));
        assert_eq!(json["bytes_by_tag"][json["tag"].as_str().unwrap()], json["bytes"]);
    }

    #[test]
    fn ranges_are_counted_across_blocks() {
        let check =
            |ids: &[u64], expected: u64| assert_eq!(ranges(&Sip::from_sorted_ids(ids)), expected, "{ids:?}");
        check(&[], 0);
        check(&[0], 1);
        check(&[0, 1, 2, 64, 65, 127, 128], 3);
        check(&[65_535, 65_536, 131_071, 196_608], 3);
        check(&(0..200_000).collect::<Vec<_>>(), 1);
        check(&(5..65_536).chain(131_072..262_144).chain([u64::MAX]).collect::<Vec<_>>(), 3);
    }

    #[test]
    fn values_as_people_write_them() {
        let check = |data_type, id: i64, expected: &str| {
            assert_eq!(id_text(&values(data_type), id.cast_unsigned()), expected);
        };
        check(DataType::Boolean, 1, "true");
        check(DataType::Int8, -5, "-5");
        check(DataType::UInt64, -1, "18446744073709551615");
        check(DataType::Date32, 15_890, "2013-07-04");
        check(DataType::Date32, 1 << 40, "1099511627776");
        check(crate::timestamp_type(), 0, "1970-01-01T00:00:00Z");
        check(DataType::Decimal128(9, 2), -5, "-0.05");
        assert_eq!(id_text(&Ids::Rows, 7), "7");
    }
}
