//! The 36 cells as the source published them.

/// One line of the source's table. Its times are single cold calls on another machine.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The cell, as [`Cell::name`](super::data::Cell::name) has it.
    pub cell: &'static str,
    /// The encoding, as [`Encoding::NAME`](super::encoding::Encoding::NAME) has it.
    pub encoding: &'static str,
    /// The bytes.
    pub bytes: usize,
    /// Milliseconds to encode, to decode, for the 2,000 probes, and for the intersection.
    pub millis: [f64; 4],
}

/// What was published of an encoding's cell.
pub fn published(cell: &str, encoding: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|line| line.cell == cell && line.encoding == encoding)
}

const fn line(cell: &'static str, encoding: &'static str, bytes: usize, millis: [f64; 4]) -> Published {
    Published { cell, encoding, bytes, millis }
}

/// The source's table, in its order.
pub const PUBLISHED: [Published; 36] = [
    line("uniform_n=1000", "raw-LE", 8_000, [0.005, 0.006, 0.019, 0.01]),
    line("uniform_n=1000", "varint-delta", 8_001, [0.011, 0.01, 0.021, 0.01]),
    line("uniform_n=1000", "roaring", 22_008, [0.277, 0.14, 0.095, 0.35]),
    line("dense_n=1000", "raw-LE", 8_000, [0.001, 0.002, 0.019, 0.004]),
    line("dense_n=1000", "varint-delta", 1_062, [0.002, 0.002, 0.021, 0.002]),
    line("dense_n=1000", "roaring", 2_328, [0.029, 0.004, 0.031, 0.029]),
    line("sparse_n=1000", "raw-LE", 8_000, [0.001, 0.001, 0.019, 0.009]),
    line("sparse_n=1000", "varint-delta", 2_370, [0.006, 0.006, 0.021, 0.01]),
    line("sparse_n=1000", "roaring", 4_176, [0.048, 0.01, 0.039, 0.063]),
    line("uniform_n=10000", "raw-LE", 80_000, [0.023, 0.042, 0.038, 0.093]),
    line("uniform_n=10000", "varint-delta", 77_291, [0.105, 0.095, 0.103, 0.097]),
    line("uniform_n=10000", "roaring", 220_008, [3.08, 1.693, 0.156, 4.111]),
    line("dense_n=10000", "raw-LE", 80_000, [0.007, 0.008, 0.033, 0.007]),
    line("dense_n=10000", "varint-delta", 10_062, [0.014, 0.019, 0.033, 0.01]),
    line("dense_n=10000", "roaring", 20_328, [0.272, 0.011, 0.035, 0.294]),
    line("sparse_n=10000", "raw-LE", 79_968, [0.007, 0.009, 0.033, 0.113]),
    line("sparse_n=10000", "varint-delta", 19_250, [0.028, 0.031, 0.033, 0.101]),
    line("sparse_n=10000", "roaring", 22_240, [0.375, 0.039, 0.041, 0.413]),
    line("uniform_n=100000", "raw-LE", 800_000, [0.066, 0.45, 0.093, 1.013]),
    line("uniform_n=100000", "varint-delta", 702_473, [0.997, 0.94, 0.099, 1.047]),
    line("uniform_n=100000", "roaring", 2_199_996, [40.76, 19.021, 0.31, 51.659]),
    line("dense_n=100000", "raw-LE", 800_000, [0.069, 0.087, 0.073, 0.064]),
    line("dense_n=100000", "varint-delta", 100_063, [0.133, 0.186, 0.084, 0.095]),
    line("dense_n=100000", "roaring", 131_400, [5.026, 0.019, 0.027, 2.508]),
    line("sparse_n=100000", "raw-LE", 797_632, [0.067, 0.37, 0.07, 0.95]),
    line("sparse_n=100000", "varint-delta", 144_751, [0.522, 0.596, 0.067, 0.994]),
    line("sparse_n=100000", "roaring", 201_656, [3.281, 0.082, 0.047, 4.034]),
    line("uniform_n=1000000", "raw-LE", 8_000_000, [3.884, 5.07, 0.258, 9.633]),
    line("uniform_n=1000000", "varint-delta", 6_785_916, [11.611, 10.298, 0.51, 9.497]),
    line("uniform_n=1000000", "roaring", 21_998_904, [369.905, 258.623, 1.164, 725.743]),
    line("dense_n=1000000", "raw-LE", 8_000_000, [0.737, 0.877, 0.177, 0.769]),
    line("dense_n=1000000", "varint-delta", 1_000_063, [1.35, 1.897, 0.186, 0.955]),
    line("dense_n=1000000", "roaring", 131_400, [36.994, 0.02, 0.027, 13.569]),
    line("sparse_n=1000000", "raw-LE", 7_755_344, [3.629, 4.286, 0.156, 9.451]),
    line("sparse_n=1000000", "varint-delta", 969_818, [1.344, 1.843, 0.213, 10.123]),
    line("sparse_n=1000000", "roaring", 1_940_888, [39.968, 0.772, 0.109, 47.322]),
];
