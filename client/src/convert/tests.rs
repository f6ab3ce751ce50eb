use arrow_array::{
    Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array, new_null_array,
};
use prost::Message as _;

use super::*;

/// Every type with its extremes and a null in the middle.
fn every_type() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![Some(-999_999_999_999), None, Some(1234)]);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)])),
        Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        Arc::new(UInt8Array::from(vec![Some(0), None, Some(u8::MAX)])),
        Arc::new(UInt16Array::from(vec![Some(0), None, Some(u16::MAX)])),
        Arc::new(UInt32Array::from(vec![Some(0), None, Some(u32::MAX)])),
        Arc::new(UInt64Array::from(vec![Some(0), None, Some(u64::MAX)])),
        Arc::new(Float32Array::from(vec![Some(f32::MIN), None, Some(f32::INFINITY)])),
        Arc::new(Float64Array::from(vec![Some(-0.5), None, Some(f64::MAX)])),
        Arc::new(decimals.with_precision_and_scale(12, 2).unwrap()),
        Arc::new(Date32Array::from(vec![Some(-719_162), None, Some(15_706)])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("UTC")),
        Arc::new(StringArray::from(vec![Some("naïve"), None, Some("")])),
    ];
    let fields: Vec<_> = arrays
        .iter()
        .enumerate()
        .map(|(i, a)| Field::new(format!("c{i}"), a.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn through_the_wire(batch: &RecordBatch) -> RecordBatch {
    let schema = schema_to_proto(batch.schema_ref()).unwrap().encode_to_vec();
    let schema = schema_from_proto(&v1::Schema::decode(schema.as_slice()).unwrap()).unwrap();
    let bytes = batch_to_proto(batch).unwrap().encode_to_vec();
    batch_from_proto(&schema, v1::RecordBatch::decode(bytes.as_slice()).unwrap()).unwrap()
}

#[test]
fn every_type_round_trips() {
    let batch = every_type();
    assert_eq!(through_the_wire(&batch), batch);
}

#[test]
fn slices_and_empty_batches_round_trip() {
    let batch = every_type();
    for (offset, length) in [(0, 0), (1, 2), (2, 1), (3, 0)] {
        let slice = batch.slice(offset, length);
        assert_eq!(through_the_wire(&slice), slice, "{offset}..+{length}");
    }
    let many = arrow_array::Int32Array::from_iter((0..100).map(|i| (i % 3 != 0).then_some(i)));
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
    let many = RecordBatch::try_new(schema, vec![Arc::new(many)]).unwrap();
    for offset in 0..17 {
        let slice = many.slice(offset, 70);
        assert_eq!(through_the_wire(&slice), slice, "{offset}");
    }
}

#[test]
fn unused_bits_of_the_validity_are_zero() {
    let array: ArrayRef = Arc::new(Int8Array::from(vec![None, Some(1), Some(2), Some(3)]));
    let column = column_to_proto(&array.slice(0, 2), &Field::new("a", DataType::Int8, true)).unwrap();
    assert_eq!(column.validity, [0b10]);
}

#[test]
fn forced_encodings_survive() {
    let field = Field::new("a", DataType::Int8, false)
        .with_metadata([(ENCODING_KEY.to_owned(), "plain".to_owned())].into());
    let schema = Schema::new(vec![field]);
    assert_eq!(*schema_from_proto(&schema_to_proto(&schema).unwrap()).unwrap(), schema);
}

#[test]
fn what_columns_are_optimized_for_survives_or_is_the_default() {
    let schema = |name: &str| {
        let metadata = [(OPTIMIZE_KEY.to_owned(), name.to_owned())].into();
        Schema::new(vec![Field::new("a", DataType::Int8, false).with_metadata(metadata)])
    };
    for name in ["size", "speed"] {
        assert_eq!(*schema_from_proto(&schema_to_proto(&schema(name)).unwrap()).unwrap(), schema(name));
    }
    let balanced = schema_from_proto(&schema_to_proto(&schema("balanced")).unwrap()).unwrap();
    assert!(balanced.field(0).metadata().is_empty());
    let error = schema_to_proto(&schema("luck")).unwrap_err().to_string();
    assert!(error.contains("\"a\"") && error.contains("\"luck\""), "{error}");
}

#[test]
fn types_that_no_table_has_are_named() {
    let schema = Schema::new(vec![Field::new("when", DataType::Date64, true)]);
    let error = schema_to_proto(&schema).unwrap_err();
    assert_eq!(error.to_string(), "column \"when\" has the Arrow type Date64, which is not one of a table's");
}

#[test]
fn decimals_of_answers_have_128_bits() {
    let schema = Arc::new(Schema::new(vec![Field::new("sum", DataType::Decimal128(38, 4), false)]));
    let value = 10_i128.pow(37) + 1;
    let data = [value.to_le_bytes(), (-value).to_le_bytes()].concat();
    let batch = |data| v1::RecordBatch {
        rows: 2,
        columns: vec![v1::Column { validity: vec![], values: Some(Values::Int128s(v1::Int128s { data })) }],
    };
    let answer = batch_from_proto(&schema, batch(data.clone())).unwrap();
    assert_eq!(answer.column(0).as_primitive::<Decimal128Type>().values(), &[value, -value]);
    assert!(batch_from_proto(&schema, batch(data[1..].to_vec())).is_err());
    assert!(batch_from_proto(&schema, batch([&data[..], &[0]].concat())).is_err());
    assert!(batch_from_proto(&schema, batch(vec![0x7f; 32])).is_err(), "more than 38 digits");
}

#[track_caller]
fn check_hostile(data_type: DataType, rows: u32, validity: Vec<u8>, values: Option<Values>, expected: &str) {
    let schema = Arc::new(Schema::new(vec![Field::new("a", data_type, true)]));
    let batch = v1::RecordBatch { rows, columns: vec![v1::Column { validity, values }] };
    let error = batch_from_proto(&schema, batch).unwrap_err().to_string();
    assert_eq!(error, format!("the server's answer is malformed: column \"a\": {expected}"));
}

#[test]
fn hostile_columns_are_errors() {
    let int32s = |values: &[i32]| Some(Values::Int32s(v1::Int32s { values: values.to_vec() }));
    let texts = |data: &[u8], lengths: &[u32]| {
        Some(Values::Texts(v1::Texts { data: data.to_vec(), lengths: lengths.to_vec() }))
    };
    check_hostile(DataType::Int32, 2, vec![], None, "no values");
    check_hostile(DataType::Int32, 2, vec![], int32s(&[1]), "1 values for 2 rows");
    check_hostile(DataType::Int32, u32::MAX, vec![], int32s(&[1]), "1 values for 4294967295 rows");
    check_hostile(DataType::Int32, 9, vec![1], int32s(&[0; 9]), "1 bytes of validity for 9 rows");
    check_hostile(DataType::Int8, 1, vec![], int32s(&[128]), "128 is out of the type's range");
    check_hostile(DataType::Utf8, 1, vec![], int32s(&[1]), "the values are not of the column's type");
    check_hostile(
        DataType::Utf8,
        2,
        vec![],
        texts(b"abc", &[1, 1]),
        "lengths of 2 bytes for 3 bytes of text",
    );
    check_hostile(
        DataType::Utf8,
        2,
        vec![],
        texts(b"abc", &[u32::MAX, 4]),
        "lengths of 4294967299 bytes for 3 bytes of text",
    );
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
    let broken = |data: &[u8], lengths: &[u32]| v1::RecordBatch {
        rows: 2,
        columns: vec![v1::Column { validity: vec![], values: texts(data, lengths) }],
    };
    assert!(batch_from_proto(&schema, broken(&[0xff, b'a'], &[1, 1])).is_err(), "not UTF-8");
    assert!(batch_from_proto(&schema, broken("é".as_bytes(), &[1, 1])).is_err(), "a character cut in two");
    assert!(batch_from_proto(&schema, v1::RecordBatch { rows: 0, columns: vec![] }).is_err(), "no columns");

    let strict = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
    let batch = batch_to_proto(
        &RecordBatch::try_new(schema_of_nulls(), vec![new_null_array(&DataType::Int32, 2)]).unwrap(),
    );
    assert!(batch_from_proto(&strict, batch.unwrap()).is_err(), "nulls where there are none");
}

fn schema_of_nulls() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]))
}

#[test]
fn values_under_a_null_do_not_count() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int8, true)]));
    let values = Some(Values::Int32s(v1::Int32s { values: vec![1000, 7] }));
    let batch = v1::RecordBatch { rows: 2, columns: vec![v1::Column { validity: vec![0b10], values }] };
    let array = batch_from_proto(&schema, batch).unwrap();
    assert_eq!(array.column(0).as_primitive::<Int8Type>(), &Int8Array::from(vec![None, Some(7)]));
}
