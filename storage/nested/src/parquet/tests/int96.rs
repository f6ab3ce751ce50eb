//! Times of 96 bits, which Spark and Impala wrote for long.

use arrow_array::{
    Array as _,
    cast::AsArray as _,
    types::{TimestampMicrosecondType, TimestampNanosecondType},
};
use arrow_schema::{DataType, Field, TimeUnit};
use parquet::{
    data_type::{Int64Type, Int96, Int96Type},
    file::writer::SerializedFileWriter,
    schema::parser::parse_message_type,
};

use super::*;
use crate::parquet::{ParquetFile, Reading};

const SCHEMA: &str = "message m {
    optional int96 t;
    required int64 n (TIMESTAMP(NANOS,false));
    optional group l (LIST) { repeated group list { optional int96 element; } }
    required group s { required int64 n (TIMESTAMP(NANOS,false)); required int96 t; }
}";
const DAY: i64 = 86_400_000_000;

fn time(days: i64, micros: u32) -> Int96 {
    let nanos = u64::from(micros) * 1000;
    let [low, high] = [nanos, nanos >> 32].map(|half| u32::try_from(half & 0xffff_ffff).unwrap());
    let mut time = Int96::new();
    time.set_data(low, high, i32::try_from(days + 2_440_588).unwrap().cast_unsigned());
    time
}

/// A file of two rows: the first has a day, the second 9999-12-31 or null.
fn of_day(day: i64, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::new(properties.build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let (first, last) = (time(day, 7), time(2_932_896, 0));
    for leaf in 0..5 {
        let mut column = group.next_column().unwrap().unwrap();
        let written = match leaf {
            0 => column.typed::<Int96Type>().write_batch(&[first], Some(&[1, 0]), None),
            2 => column.typed::<Int96Type>().write_batch(&[last, first], Some(&[3, 3, 0]), Some(&[0, 1, 0])),
            4 => column.typed::<Int96Type>().write_batch(&[first, last], None, None),
            _ => column.typed::<Int64Type>().write_batch(&[1_000_000_001, -1], None, None),
        };
        written.unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    file
}

fn kinds() -> impl Iterator<Item = WriterPropertiesBuilder> {
    let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0].into_iter();
    versions.flat_map(|version| {
        [true, false].map(|dictionary| {
            WriterProperties::builder().set_writer_version(version).set_dictionary_enabled(dictionary)
        })
    })
}

fn micros(array: &ArrayRef) -> Vec<Option<i64>> {
    array.as_primitive::<TimestampMicrosecondType>().iter().collect()
}

#[test]
fn they_are_microseconds_wherever_they_stand() {
    let (us, ns) =
        (DataType::Timestamp(TimeUnit::Microsecond, None), DataType::Timestamp(TimeUnit::Nanosecond, None));
    let last = Some(2_932_896 * DAY);
    // 1600-01-01, 1970-01-01, 2300-01-01.
    for day in [-135_140, 0, 120_530] {
        let first = Some(day * DAY + 7);
        for properties in kinds() {
            let file = of_day(day, properties);
            let footer = Footer::new(Bytes::from(file.clone()), file.len()).unwrap();
            let whole = ParquetFile::new(footer).unwrap();
            let types: Vec<_> = whole.schema().fields().iter().map(|f| f.data_type().clone()).collect();
            assert_eq!(types[..2], [us.clone(), ns.clone()]);
            assert!(matches!(&types[2], DataType::List(item) if *item.data_type() == us));
            let fields = vec![Field::new("n", ns.clone(), false), Field::new("t", us.clone(), false)];
            assert_eq!(types[3], DataType::Struct(fields.into()));
            let reading = Reading { batch_rows: 64, page_bytes: PAGE, wanted: Wanted::always() };
            let rows = whole.rows(&reading).unwrap().0.next().unwrap().unwrap();
            for rows in [&rows, &read(&file, PAGE).unwrap()[0]] {
                assert_eq!(micros(rows.column(0)), [first, None]);
                let nanos = rows.column(1).as_primitive::<TimestampNanosecondType>();
                assert_eq!(nanos.values()[..], [1_000_000_001, -1]);
                let list = rows.column(2).as_list::<i32>();
                assert!(list.is_null(1));
                assert_eq!(micros(&list.value(0)), [last, first]);
                assert_eq!(micros(rows.column(3).as_struct().column(1)), [first, last]);
            }
            // Some of the columns, as a table has them read.
            let groups = groups(&file, PAGE);
            let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(file)).unwrap();
            let some = ProjectionMask::roots(metadata.file_metadata().schema_descr(), [3]);
            let rows = groups.read(some, None, None, 64).unwrap().next().unwrap().unwrap();
            assert_eq!(
                (rows.num_columns(), micros(rows.column(0).as_struct().column(1))),
                (1, vec![first, last])
            );
        }
    }
}

#[test]
fn those_that_64_bits_do_not_have_are_refused() {
    for properties in kinds() {
        let within = of_day(-99_999_999, properties.clone());
        assert_eq!(micros(read(&within, PAGE).unwrap()[0].column(0)), [Some(-99_999_999 * DAY + 7), None]);
        for day in [-100_000_001, 213_503_982, i64::from(i32::MAX) - 2_440_588] {
            refused(&of_day(day, properties.clone()), "a time of 96 bits that no timestamp of 64 bits is");
        }
    }
}
