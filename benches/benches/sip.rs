//! The tables of the third source, for SIPs: its 36 cells made again byte for byte, with ours and the newest
//! roaring libraries beside; other shapes and what was published for them; masks to bytes and back; the choice
//! of the tag; set operations.
//!
//! `cargo bench --profile dist -p basalt-benches --bench sip`; `-- --small` for a quick look, and names of tables
//! (`cells`, `tags`, `chooser`, `masks`, `operations`) for those alone.

use std::env;

use basalt_benches::{
    sip::{cells, chooser, data, masks, operations},
    timing,
};

fn main() {
    let small = timing::small();
    let cells = data::cells(cells::sizes());
    let largest = &cells[cells.len() - 3..];
    let shapes = data::shapes(if small { 10_000 } else { 1_000_000 });
    let (wide, all) = ([largest, &shapes].concat(), [&cells[..], &shapes].concat());

    let tables: [(&str, &dyn Fn()); 5] = [
        ("cells", &|| cells::source_table(&cells)),
        ("tags", &|| cells::tag_table(&wide)),
        ("chooser", &|| {
            chooser::size_table(&all);
            chooser::time_table(&all);
        }),
        ("masks", &|| masks::tables(&data::masks(if small { 200_000 } else { 10_000_000 }))),
        ("operations", &|| operations::operation_table(largest)),
    ];
    let asked: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, print) in tables {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            print();
        }
    }
}
