//! The structs of a Parquet file as the crate `parquet` reads them: what it passes over is not here.

use parquet::{
    basic::ColumnOrder,
    file::metadata::{KeyValue, RowGroupMetaData, SortingColumn},
};

use super::thrift::{
    Fields,
    Of::{self, Binary, Bool, Byte, Double, I16, I32, I64, List, Struct},
};

const EMPTY: Of = Struct(&[]);

/// A file's footer.
pub(super) const FILE: &Fields = &[
    (1, I32),
    (SCHEMA, List(&Struct(ELEMENT), 0)),
    (3, I64),
    (ROW_GROUPS, List(&Struct(GROUP), 0)),
    (5, List(&Struct(KEY_VALUE), size_of::<KeyValue>())),
    (6, Binary),
    (7, List(&Struct(&[(1, EMPTY)]), size_of::<ColumnOrder>())),
    // Of encryption, which is read where a crate beside this one asks for it; so are 8 and 9 of a column.
    (8, Struct(&[(1, AES), (2, AES)])),
    (9, Binary),
];
pub(super) const SCHEMA: i64 = 2;
pub(super) const ROW_GROUPS: i64 = 4;
const AES: Of = Struct(&[(1, Binary), (2, Binary), (3, Bool)]);

/// An element of the schema.
pub(super) const ELEMENT: &Fields = &[
    (1, I32),
    (TYPE_LENGTH, I32),
    (3, I32),
    (NAME, Binary),
    (CHILDREN, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Struct(LOGICAL_TYPE)),
];
pub(super) const TYPE_LENGTH: i64 = 2;
pub(super) const NAME: i64 = 4;
pub(super) const CHILDREN: i64 = 5;

const LOGICAL_TYPE: &Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    // A decimal.
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    // An integer.
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    // A variant, a geometry, a geography.
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, I32)])),
];
/// A time of day or a timestamp, with its unit.
const TIME: Of = Struct(&[(1, Bool), (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);

/// A row group.
pub(super) const GROUP: &Fields = &[
    (1, List(&Struct(COLUMN), 0)),
    (2, I64),
    (3, I64),
    (4, List(&Struct(&[(1, I32), (2, Bool), (3, Bool)]), size_of::<SortingColumn>())),
    (5, I64),
    (7, I16),
];
/// What one takes without its columns.
pub(super) const GROUP_BYTES: usize = size_of::<RowGroupMetaData>();

/// A column of a row group.
const COLUMN: &Fields = &[
    (1, Binary),
    (2, I64),
    (3, Struct(COLUMN_METADATA)),
    (4, I64),
    (5, I32),
    (6, I64),
    (7, I32),
    (8, Struct(&[(1, EMPTY), (2, Struct(&[(1, List(&Binary, size_of::<String>())), (2, Binary)]))])),
    (9, Binary),
];

const COLUMN_METADATA: &Fields = &[
    (1, I32),
    (2, List(&I32, 0)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Struct(STATISTICS)),
    // Pages by their encodings.
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]), 0)),
    (14, I64),
    (15, I32),
    // Sizes, with how often which level is there.
    (16, Struct(&[(1, I64), (2, List(&I64, 8)), (3, List(&I64, 8))])),
    // Of geometries: a box, and their types.
    (17, Struct(&[(1, Struct(BOX)), (2, List(&I32, 4))])),
];

const STATISTICS: &Fields =
    &[(1, Binary), (2, Binary), (3, I64), (4, I64), (5, Binary), (6, Binary), (7, Bool), (8, Bool)];

const BOX: &Fields =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];

const KEY_VALUE: &Fields = &[(1, Binary), (2, Binary)];

/// The header of a page; its statistics are not read.
pub(super) const PAGE: &Fields = &[
    (1, I32),
    (UNCOMPRESSED, I32),
    (COMPRESSED, I32),
    (4, I32),
    (FIRST, Struct(FIRST_PAGE)),
    (6, EMPTY),
    (7, Struct(&[(1, I32), (2, I32), (3, Bool)])),
    (SECOND, Struct(SECOND_PAGE)),
];
pub(super) const UNCOMPRESSED: i64 = 2;
pub(super) const COMPRESSED: i64 = 3;
pub(super) const FIRST: i64 = 5;
pub(super) const SECOND: i64 = 8;

/// That of a page of the first kind.
pub(super) const FIRST_PAGE: &Fields = &[(VALUES, I32), (2, I32), (3, I32), (4, I32)];
/// How many values one of either kind has.
pub(super) const VALUES: i64 = 1;

/// That of a page of the second kind, whose levels stand before what is compressed, and their lengths in it.
pub(super) const SECOND_PAGE: &Fields =
    &[(VALUES, I32), (2, I32), (3, I32), (4, I32), (DEFINITIONS, I32), (REPETITIONS, I32), (7, Bool)];
pub(super) const DEFINITIONS: i64 = 5;
pub(super) const REPETITIONS: i64 = 6;
