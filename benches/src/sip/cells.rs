//! The source's table, with ours and the best of the rivals beside it.

use std::time::Duration;

use super::{
    contender::{self, Contender, Figures, MEASURES},
    data::{self, Cell},
    ours::{Chosen, Tagged},
    published::published,
    rivals::{CroaringBitmap64, CroaringTreemap, RoaringRuns},
    source::{Raw, Roaring, VarintDelta},
};
use crate::{table, timing};

const CONTENDERS: [Contender; 7] = [
    Contender::of::<Raw>(),
    Contender::of::<VarintDelta>(),
    Contender::of::<Roaring>(),
    Contender::of::<RoaringRuns>(),
    Contender::of::<CroaringTreemap>(),
    Contender::of::<CroaringBitmap64>(),
    Contender::of::<Chosen>(),
];

/// The rivals, and ours under every tag.
const TAGS: [Contender; 6] = [
    Contender::of::<RoaringRuns>(),
    Contender::of::<CroaringBitmap64>(),
    Contender::of::<Tagged<1>>(),
    Contender::of::<Tagged<2>>(),
    Contender::of::<Tagged<3>>(),
    Contender::of::<Tagged<4>>(),
];

const EACH: Duration = Duration::from_millis(15);

/// The 36 cells: the bytes are asserted to be the source's.
pub fn source_table(cells: &[Cell]) {
    let mut rows = Vec::new();
    for cell in cells {
        for (contender, figures) in CONTENDERS.iter().zip(contender::race(cell, &CONTENDERS, EACH)) {
            let source = published(&cell.name, contender.name);
            if let Some(source) = source {
                assert_eq!(figures.bytes, source.bytes, "{}, {}", cell.name, contender.name);
            }
            let mut row = line(cell, &figures);
            row.extend(
                (0..4).map(|measure| {
                    source.map_or_else(String::new, |source| source.millis[measure].to_string())
                }),
            );
            rows.push(row);
        }
    }
    let header = HEADER.into_iter().chain(MEASURES).chain(["source: enc", "dec", "cnt", "isect"]);
    table::print("The source's 36 cells, and ours", &header.collect::<Vec<_>>(), &rows);
}

/// The largest cells and the other shapes, under every tag.
pub fn tag_table(cells: &[Cell]) {
    let rows = cells
        .iter()
        .flat_map(|cell| contender::race(cell, &TAGS, EACH).into_iter().map(|figures| line(cell, &figures)));
    let header: Vec<&str> = HEADER.into_iter().chain(MEASURES).collect();
    table::print("Every tag", &header, &rows.collect::<Vec<_>>());
}

const HEADER: [&str; 4] = ["cell", "encoding", "bytes", "bits/elem"];

#[allow(clippy::cast_precision_loss, reason = "figures to print")]
fn line(cell: &Cell, figures: &Figures) -> Vec<String> {
    let bits = 8.0 * figures.bytes as f64 / cell.ids.len() as f64;
    let mut row =
        vec![cell.name.clone(), figures.label.clone(), table::grouped(figures.bytes), format!("{bits:.4}")];
    row.extend(figures.seconds.map(table::millis));
    row
}

/// The sizes of a run: the two smallest for a quick look.
pub fn sizes() -> &'static [usize] {
    if timing::small() { &data::SIZES[..2] } else { &data::SIZES }
}
