//! Few rows of a block, by their places.

use basalt_kernels::mask::set_positions;

use crate::limits::BLOCK_WORDS;

/// So many times more of one list are searched for each of the other, rather than marked.
const MANY: usize = 8;

/// Calls `work` with the numbers, in both lists, of the rows of a block that are in both. The lists ascend.
pub(super) fn each_common(exceptions: &[u16], places: &[u16], mut work: impl FnMut(usize, usize)) {
    let mut first = 0;
    let mut find = |place: u16| {
        first += exceptions[first..].partition_point(|exception| *exception < place);
        (exceptions.get(first) == Some(&place)).then_some(first)
    };
    if exceptions.is_empty() || places.is_empty() {
        return;
    }
    if exceptions.len() / MANY > places.len() {
        for (at, place) in places.iter().enumerate() {
            if let Some(exception) = find(*place) {
                work(exception, at);
            }
        }
        return;
    }
    // Which rows are exceptions is foretold better than which list goes on.
    let mut are_exceptions = [0; BLOCK_WORDS];
    let bytes: Vec<[u8; 2]> = exceptions.iter().map(|exception| exception.to_le_bytes()).collect();
    set_positions(&bytes, &mut are_exceptions);
    for (at, place) in places.iter().enumerate() {
        if are_exceptions[usize::from(place / 64)] >> (place % 64) & 1 == 1
            && let Some(exception) = find(*place)
        {
            work(exception, at);
        }
    }
}
