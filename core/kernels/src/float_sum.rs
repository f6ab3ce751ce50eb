//! The running sum of floats whose bits depend on nothing but the rows.

/// A sum of floats in eight lanes, so that every instruction set gives the same bits.
///
/// Rows are taken in chunks of 64. Within a chunk, lane `l` adds rows `l`, `l + 8`, `l + 16`, ... in that
/// order, starting from +0.0; the chunk's lanes are then added to those held here.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FloatSum {
    pub(crate) lanes: [f64; 8],
}

impl FloatSum {
    /// Adds the floats of the rows at ascending places, which begin at a chunk and are all rows of theirs that are added.
    ///
    /// # Panics
    /// Where there are not as many places as values.
    #[track_caller]
    pub fn add_at(&mut self, places: &[u16], values: &[f64]) {
        assert!(places.len() == values.len(), "{} places for {} floats", places.len(), values.len());
        // What each lane adds up to in its last chunk: chunks in which it adds nothing leave it as it is.
        let (mut sums, mut chunks) = ([0.0; 8], [0; 8]);
        for (place, value) in places.iter().zip(values) {
            let (lane, chunk) = (usize::from(*place % 8), place / 64);
            if chunks[lane] == chunk {
                sums[lane] += value;
            } else {
                self.lanes[lane] += sums[lane];
                (sums[lane], chunks[lane]) = (0.0 + value, chunk);
            }
        }
        self.lanes.iter_mut().zip(sums).for_each(|(lane, sum)| *lane += sum);
    }

    /// The lanes added up: `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`. Every NaN is the same NaN.
    pub fn finish(self) -> f64 {
        let [a, b, c, d, e, f, g, h] = self.lanes;
        let sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
        if sum.is_nan() { f64::NAN } else { sum }
    }
}
