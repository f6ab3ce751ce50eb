//! What columns hold exactly, what they do not, and what is told of that.

use arrow_array::{
    Date64Array, Decimal128Array, DictionaryArray, FixedSizeListArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int64Array, LargeStringArray, NullArray, StringArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, builder::ListBuilder,
    types::Int8Type,
};
use basalt_core::schema::DataType;

use super::*;

fn fitted(data_type: DataType, column: ArrayRef) -> Result<ArrayRef> {
    let reader = BatchReader::new(&[Field::new("a", data_type, true)]);
    let batch = RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap();
    let pieces = reader.pieces(&batch, 1)?;
    assert_eq!(pieces.len(), 1);
    let fitted = reader.fit(&pieces[0], 1)?;
    assert!(reader.fits(&fitted) && !reader.fits(&pieces[0]));
    Ok(Arc::clone(fitted.column(0)))
}

#[test]
fn what_a_column_holds_exactly_is_taken() {
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(-7)]));
    for data_type in [DataType::Int8, DataType::Float32, DataType::Decimal { precision: 12, scale: 2 }] {
        let fitted = fitted(data_type, Arc::clone(&ints)).unwrap();
        let back = arrow_cast::cast(&fitted, &Arrow::Int64).unwrap();
        assert_eq!(back.to_data(), ints.to_data(), "{data_type}");
    }
    let whole: ArrayRef = Arc::new(Float64Array::from(vec![Some(7.0), None]));
    assert_eq!(fitted(DataType::Int64, whole).unwrap().as_ref(), &Int64Array::from(vec![Some(7), None]));
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_000, 2_000]));
    let expected = arrow_array::TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("UTC");
    assert_eq!(fitted(DataType::Timestamp, times).unwrap().as_ref(), &expected);
    let days: ArrayRef = Arc::new(Date64Array::from(vec![86_400_000]));
    assert_eq!(fitted(DataType::Date32, days).unwrap().as_ref(), &arrow_array::Date32Array::from(vec![1]));
    let nulls: ArrayRef = Arc::new(NullArray::new(2));
    assert_eq!(fitted(DataType::Int8, nulls).unwrap().null_count(), 2);
    let words = vec![Some("a"), None, Some("b"), Some("a")];
    let expected = StringArray::from(words.clone());
    let dictionary: DictionaryArray<Int8Type> = words.iter().copied().collect();
    let texts: [ArrayRef; 3] = [
        Arc::new(LargeStringArray::from(words.clone())),
        Arc::new(StringViewArray::from(words)),
        Arc::new(dictionary),
    ];
    for column in texts {
        assert_eq!(fitted(DataType::Utf8, column).unwrap().as_ref(), &expected);
    }
}

#[test]
fn lists_are_json_in_columns_of_texts() {
    let words: DictionaryArray<Int8Type> =
        [Some("a \"b\""), None, Some("c"), Some("c")].into_iter().collect();
    let item = Arc::new(arrow_schema::Field::new_list_field(words.data_type().clone(), true));
    let lists = |words: DictionaryArray<Int8Type>, each: i32| {
        Arc::new(FixedSizeListArray::new(Arc::clone(&item), each, Arc::new(words), None)) as ArrayRef
    };
    let two = lists(words, 2);
    let expected = StringArray::from(vec![r#"["a \"b\"",null]"#, r#"["c","c"]"#]);
    assert_eq!(fitted(DataType::Utf8, Arc::clone(&two)).unwrap().as_ref(), &expected);
    let error = fitted(DataType::Int64, Arc::clone(&two)).unwrap_err().to_string();
    assert!(error.contains("is no value of"), "{error}");
    let schema = ArrowSchema::new(vec![arrow_schema::Field::new("l", two.data_type().clone(), true)]);
    let table = table_schema(&schema).unwrap();
    assert_eq!(table.fields(), [Field::new("l", DataType::Utf8, true)]);
    // What is named often is made piece by piece, and no text has more bytes than others.
    let long = "x".repeat(1000);
    let many: DictionaryArray<Int8Type> = std::iter::repeat_n(Some(long.as_str()), 64_000).collect();
    let reader = BatchReader::new(&[Field::new("a", DataType::Utf8, true)]);
    let batch = RecordBatch::try_from_iter([("a", lists(many.clone(), 1000))]).unwrap();
    let pieces = reader.pieces(&batch, 1).unwrap();
    assert!(pieces.len() > 3, "{}", pieces.len());
    assert!(pieces.iter().all(|piece| reader.fit(piece, 1).is_ok()));
    let batch = RecordBatch::try_from_iter([("a", lists(many.clone(), 2000))]).unwrap();
    let pieces = reader.pieces(&batch, 1).unwrap();
    let error = reader.fit(&pieces[0], 1).unwrap_err().to_string();
    assert!(error.contains("more than 1048576 bytes"), "{error}");
    let batch = RecordBatch::try_from_iter([("a", lists(many, 64_000))]).unwrap();
    let error = reader.pieces(&batch, 1).unwrap_err().to_string();
    assert!(error.contains("row 1: a row with more than 16 MiB of texts"), "{error}");
}

#[test]
fn what_a_column_does_not_hold_is_an_error() {
    let check = |data_type, column: ArrayRef, words: &str| {
        let error = fitted(data_type, column).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    check(DataType::Int8, Arc::new(Int64Array::from(vec![1, 128])), "row 2: 128 is no int8");
    check(DataType::UInt64, Arc::new(Int64Array::from(vec![-1])), "row 1: -1 is no uint64");
    check(DataType::Int64, Arc::new(Float64Array::from(vec![1.0, 1.5])), "row 2: 1.5 is no int64");
    check(DataType::Float64, Arc::new(Int64Array::from(vec![(1 << 53) + 1])), "is no float64");
    check(DataType::Timestamp, Arc::new(TimestampNanosecondArray::from(vec![1_001])), "is no timestamp");
    check(
        DataType::Float32,
        Arc::new(Float64Array::from(vec![f64::INFINITY, 1e39])),
        "row 2: 1e39 does not fit",
    );
    check(DataType::Int64, Arc::new(StringArray::from(vec!["1"])), "which Utf8 is no value of");
    check(DataType::Utf8, Arc::new(Int64Array::from(vec![1])), "which Int64 is no value of");
    check(
        DataType::Decimal { precision: 4, scale: 2 },
        Arc::new(Float64Array::from(vec![1.005])),
        "is no decimal(4,2)",
    );
}

#[test]
fn a_float_is_its_shortest_decimal() {
    let wide = Field::from_arrow("a", &Arrow::Decimal128(38, 20), true).unwrap();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(123_456_789.123), None, Some(-0.1)]));
    let made = fit(&floats, &wide, 1).unwrap();
    let expected = [Some(123_456_789_123 * 10_i128.pow(17)), None, Some(-(10_i128.pow(19)))];
    assert_eq!(made.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(), expected);
    // And back, where a quotient of floats would be another one.
    let double = Field::new("a", DataType::Float64, true);
    assert_eq!(&fit(&made, &double, 1).unwrap(), &floats);
    let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
    let values = Float32Array::from(vec![12.34, 0.1]);
    let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(values)));
    let narrow = Field::new("a", DataType::Decimal { precision: 18, scale: 9 }, true);
    let made = fit(&dictionary, &narrow, 1).unwrap();
    let expected = [Some(100_000_000), None, Some(12_340_000_000)];
    assert_eq!(made.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(), expected);
    let single = Field::new("a", DataType::Float32, true);
    let back = fit(&made, &single, 1).unwrap();
    assert_eq!(back.as_primitive::<Float32Type>().iter().collect::<Vec<_>>(), [Some(0.1), None, Some(12.34)]);
    let error = |column: ArrayRef, field: &Field| fit(&column, field, 1).unwrap_err().to_string();
    let cents = Field::new("a", DataType::Decimal { precision: 12, scale: 2 }, true);
    let sum = error(Arc::new(Float64Array::from(vec![12.34, 0.1 + 0.2, f64::NAN])), &cents);
    assert!(sum.contains("row 2: 0.30000000000000004 is no decimal(12,2)"), "{sum}");
    let large = error(Arc::new(Float64Array::from(vec![1.0, 1e10])), &cents);
    assert!(large.contains("row 2: ") && large.contains("is no decimal(12,2)"), "{large}");
    let long = Decimal128Array::from(vec![Some(1), Some(12_345_678_901_234_567_891)]);
    let long = long.with_precision_and_scale(38, 2).unwrap();
    let long = error(Arc::new(long), &double);
    assert!(long.contains("row 2: 123456789012345678.91 is no float64"), "{long}");
}

#[test]
fn a_dictionary_of_a_long_text_is_taken_piece_by_piece() {
    let long = "x".repeat(1 << 20);
    let dictionary: DictionaryArray<Int8Type> = std::iter::repeat_n(Some(long.as_str()), 256).collect();
    let reader = BatchReader::new(&[Field::new("a", DataType::Utf8, true)]);
    let batch = RecordBatch::try_from_iter([("a", Arc::new(dictionary) as ArrayRef)]).unwrap();
    let pieces = reader.pieces(&batch, 1).unwrap();
    assert!(pieces.len() > 8, "{}", pieces.len());
    assert_eq!(pieces.iter().map(RecordBatch::num_rows).sum::<usize>(), 256);
}

/// One text of a message may stand in all columns of a row, and in all rows.
#[test]
fn a_row_has_no_more_texts_than_are_taken_at_once() {
    let fields = |n: usize| -> Vec<Field> {
        (0..n).map(|i| Field::new(format!("c{i}"), DataType::Utf8, true)).collect()
    };
    let batch = |columns: Vec<ArrayRef>| {
        let columns = columns.into_iter().enumerate();
        RecordBatch::try_from_iter(columns.map(|(i, column)| (format!("c{i}"), column))).unwrap()
    };
    let long = "x".repeat(MAX_TEXT_BYTES);
    let dictionary: DictionaryArray<Int8Type> = [Some(long.as_str())].into_iter().collect();
    let dictionary: ArrayRef = Arc::new(dictionary);
    let pieces = |columns: Vec<ArrayRef>| {
        let reader = BatchReader::new(&fields(columns.len()));
        reader.pieces(&batch(columns), 1).map(|pieces| pieces.len())
    };
    assert_eq!(pieces(vec![Arc::clone(&dictionary); 16]).unwrap(), 1);
    let error = pieces(vec![dictionary; 17]).unwrap_err().to_string();
    assert!(error.contains("row 1: a row with more than 16 MiB of texts"), "{error}");
    // The same of bytes.
    let bytes = arrow_array::BinaryArray::from(vec![long.as_bytes()]);
    let bytes: ArrayRef = Arc::new(DictionaryArray::new(Int8Array::from(vec![0]), Arc::new(bytes)));
    assert!(pieces(vec![bytes; 17]).is_err());
    let longer = format!("{long}x");
    let dictionary: DictionaryArray<Int8Type> = [Some(longer.as_str())].into_iter().collect();
    let error = fitted(DataType::Utf8, Arc::new(dictionary)).unwrap_err().to_string();
    assert!(error.contains("row 1: a text of 1048577 bytes"), "{error}");
}

/// Rows are pieces of a whole, whose first one may have any number; Arrow names none.
#[test]
fn what_does_not_fit_is_told_with_the_number_of_its_row() {
    let fields = [
        Field::new("a", DataType::Int16, true),
        Field::new("at", DataType::Timestamp, true),
        Field::from_arrow("time", &Arrow::Time64(TimeUnit::Microsecond), true).unwrap(),
        Field::new("texts", DataType::Utf8, true),
    ];
    let reader = BatchReader::new(&fields);
    // Of 5,000 rows, these are wrong.
    let told = |wrong: [Option<usize>; 4]| {
        let value = |column: usize, row: usize, bad: i64| if wrong[column] == Some(row) { bad } else { 7 };
        let values = |column: usize, bad: i64| (0..5000).map(move |row| value(column, row, bad));
        let lists = (0..5000).map(|row| {
            let long = wrong[3] == Some(row);
            Some(vec![Some(if long { "x".repeat(MAX_TEXT_BYTES) } else { String::new() })])
        });
        let mut texts = ListBuilder::new(StringBuilder::new());
        texts.extend(lists);
        let columns: [(&str, ArrayRef); 4] = [
            ("a", Arc::new(Int64Array::from_iter_values(values(0, 40_000)))),
            ("at", Arc::new(TimestampMicrosecondArray::from_iter_values(values(1, i64::MAX)))),
            ("time", Arc::new(Time64MicrosecondArray::from_iter_values(values(2, -1)))),
            ("texts", Arc::new(texts.finish())),
        ];
        let columns = columns.map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        reader.fit(&batch, 85_001).unwrap_err()
    };
    let check = |wrong: [Option<usize>; 4], place: &str, message: &str| {
        let error = told(wrong);
        assert_eq!(error.place(), Some(place), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidBatch);
        assert_eq!(error.message(), message);
    };
    let [none, first, last] = [None, Some(0), Some(4999)];
    let number = |row: u64| format!("column \"a\", row {row}: 40000 is no int16");
    for row in [0, 1, 499, 2499, 2500, 4998, 4999] {
        check([Some(row), none, none, none], "columns[0]", &number(85_001 + row as u64));
    }
    let far = "column \"at\", row 85500: 9223372036854775807 is no timestamp";
    check([none, Some(499), none, none], "columns[1]", far);
    let time = "column \"time\", row 85500: a time that no day has";
    check([none, none, Some(499), none], "columns[2]", time);
    let long = told([none, none, none, Some(499)]);
    assert!(long.message().starts_with("column \"texts\", row 85500: "), "{long}");
    // The first row that is wrong, whichever column comes first.
    check([last, first, none, none], "columns[1]", &far.replace("85500", "85001"));
    check([Some(499), none, Some(499), last], "columns[0]", &number(85_500));
}

/// A dictionary may have values that no row names.
#[test]
fn the_values_of_a_dictionary_are_those_that_rows_name() {
    let dictionary = |keys: Vec<i8>| -> ArrayRef {
        let values = Int64Array::from(vec![40_000, 7]);
        Arc::new(DictionaryArray::new(Int8Array::from(keys), Arc::new(values)))
    };
    let made = fitted(DataType::Int16, dictionary(vec![1, 1])).unwrap();
    assert_eq!(made.as_ref(), &Int16Array::from(vec![7, 7]));
    let error = fitted(DataType::Int16, dictionary(vec![1, 1, 0])).unwrap_err();
    assert_eq!(error.message(), "column \"a\", row 3: 40000 is no int16");
}

/// Columns of nulls take no bytes of a message, those of the table do.
#[test]
fn pieces_have_few_values() {
    let columns = (0..100).map(|i| (format!("c{i}"), Arc::new(NullArray::new(1 << 16)) as ArrayRef));
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    let fields: Vec<_> = (0..100).map(|i| Field::new(format!("c{i}"), DataType::Int64, true)).collect();
    let pieces = BatchReader::new(&fields).pieces(&batch.unwrap(), 1).unwrap();
    assert!(pieces.iter().all(|piece| piece.num_rows() * 100 <= limits::FITTED_VALUES));
    assert_eq!(pieces.iter().map(RecordBatch::num_rows).sum::<usize>(), 1 << 16);
}
