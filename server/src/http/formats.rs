//! The formats of answers, by their media types.

use std::{fmt, io::Write, sync::Arc};

use arrow_array::{
    Array, ArrowPrimitiveType, PrimitiveArray, RecordBatch,
    cast::AsArray as _,
    types::{Float32Type, Float64Type},
};
use arrow_ipc::writer::StreamWriter;
use arrow_json::{
    Encoder as JsonEncoder, EncoderFactory, EncoderOptions, WriterBuilder as JsonBuilder,
    writer::{JsonArray, LineDelimited, NullableEncoder, Writer as JsonWriter},
};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};
use axum::http::{HeaderMap, header};
use basalt_sql::csv::Form;
use parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};

use super::options::media_type;
use crate::{
    limits, logged,
    status::{RequestError, Result},
};

/// A format of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    JsonLines,
    Json,
    Csv,
    Arrow,
    Parquet,
}

/// The media types of each, the first of which is the one that answers have.
const TYPES: [(Format, &[&str]); 5] = [
    (Format::JsonLines, &["application/x-ndjson", "application/jsonl", "application/x-jsonlines"]),
    (Format::Json, &["application/json"]),
    (Format::Csv, &["text/csv"]),
    (Format::Arrow, &["application/vnd.apache.arrow.stream"]),
    (Format::Parquet, &["application/vnd.apache.parquet"]),
];

impl Format {
    pub(super) fn media_type(self) -> &'static str {
        let of = TYPES.iter().find(|(format, _)| *format == self);
        of.and_then(|(_, types)| types.first()).copied().unwrap_or("application/octet-stream")
    }

    /// The format that a request accepts: the first that is known, of those without `q=0`. `None`: none of them is.
    pub(super) fn accepted(headers: &HeaderMap) -> Option<Self> {
        let mut accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut named = accepts.by_ref().flat_map(|value| value.split(',')).peekable();
        // Whoever says nothing accepts anything.
        if named.peek().is_none() {
            return Some(Self::JsonLines);
        }
        named.find_map(|value| {
            let refused = value.split(';').skip(1).any(|part| {
                let part = part.replace(' ', "").to_ascii_lowercase();
                part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0)
            });
            let name = media_type(value).to_ascii_lowercase();
            if refused {
                return None;
            }
            if name == "*/*" || name == "application/*" {
                return Some(Self::JsonLines);
            }
            if name == "text/*" {
                return Some(Self::Csv);
            }
            TYPES.iter().find(|(_, types)| types.contains(&name.as_str())).map(|(format, _)| *format)
        })
    }

    /// All media types, for those who accept none.
    pub(super) fn all() -> String {
        TYPES.map(|(format, _)| format.media_type()).join(", ")
    }
}

/// Makes the bytes of an answer, piece by piece.
pub(super) enum Encoder {
    JsonLines,
    Json(Box<JsonWriter<Vec<u8>, JsonArray>>),
    /// The header is still to be written.
    Csv {
        schema: SchemaRef,
        header: bool,
        /// What stands for null.
        null: String,
    },
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Parquet(Box<ArrowWriter<Vec<u8>>>),
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encoder")
    }
}

fn json() -> JsonBuilder {
    JsonBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(Floats))
}

impl Encoder {
    pub(super) fn new(format: Format, schema: &SchemaRef, null: &str) -> Result<Self> {
        Ok(match format {
            Format::JsonLines => Self::JsonLines,
            Format::Json => Self::Json(Box::new(json().build(Vec::new()))),
            Format::Csv => Self::Csv { schema: Arc::clone(schema), header: true, null: null.to_owned() },
            Format::Arrow => {
                let writer = StreamWriter::try_new(Vec::new(), schema).map_err(unwritten)?;
                Self::Arrow(Box::new(writer))
            }
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(schema), Some(properties));
                Self::Parquet(Box::new(writer.map_err(unwritten)?))
            }
        })
    }

    /// The bytes that rows add.
    pub(super) fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        match self {
            Self::JsonLines => {
                let mut writer = json().build::<_, LineDelimited>(Vec::new());
                writer.write(batch).and_then(|()| writer.finish()).map_err(unwritten)?;
                Ok(writer.into_inner())
            }
            Self::Json(writer) => {
                writer.write(batch).map_err(unwritten)?;
                Ok(std::mem::take(writer.get_mut()))
            }
            Self::Csv { header, null, .. } => csv(batch, std::mem::take(header), null),
            Self::Arrow(writer) => {
                writer.write(batch).map_err(unwritten)?;
                Ok(std::mem::take(writer.get_mut()))
            }
            Self::Parquet(writer) => {
                writer.write(batch).map_err(unwritten)?;
                if writer.memory_size() >= limits::PARQUET_GROUP_BYTES {
                    writer.flush().map_err(unwritten)?;
                }
                Ok(std::mem::take(writer.inner_mut()))
            }
        }
    }

    /// The last bytes, with which the answer is complete.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        match self {
            Self::JsonLines | Self::Csv { header: false, .. } => Ok(Vec::new()),
            Self::Json(mut writer) => {
                writer.finish().map_err(unwritten)?;
                let mut bytes = writer.into_inner();
                bytes.push(b'\n');
                Ok(bytes)
            }
            Self::Csv { schema, header, null } => csv(&RecordBatch::new_empty(schema), header, &null),
            Self::Arrow(writer) => writer.into_inner().map_err(unwritten),
            Self::Parquet(writer) => writer.into_inner().map_err(unwritten),
        }
    }
}

fn csv(batch: &RecordBatch, header: bool, null: &str) -> Result<Vec<u8>> {
    let (mut bytes, form) = (Vec::new(), Form { null, ..Form::default() });
    if header {
        form.header(&batch.schema(), &mut bytes).map_err(unwritten)?;
    }
    form.rows(batch, &mut bytes).map_err(unwritten)?;
    Ok(bytes)
}

fn unwritten(error: impl fmt::Display) -> RequestError {
    tracing::error!(error = logged::text(&error.to_string()), "an answer cannot be written");
    RequestError::internal()
}

/// Floats that JSON has no numbers for are the texts "NaN", "inf" and "-inf", so that none is lost.
#[derive(Debug)]
struct Floats;

impl EncoderFactory for Floats {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> std::result::Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn JsonEncoder + 'a> = match array.data_type() {
            DataType::Float32 => Box::new(Float(array.as_primitive::<Float32Type>())),
            DataType::Float64 => Box::new(Float(array.as_primitive::<Float64Type>())),
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

struct Float<'a, T: ArrowPrimitiveType>(&'a PrimitiveArray<T>);

impl<T> JsonEncoder for Float<'_, T>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64> + fmt::Debug,
{
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value = self.0.value(row);
        let wide: f64 = value.into();
        // The shortest number that is read as this one; a vector takes all that is written.
        let _ = match wide.is_finite() {
            true => write!(out, "{value:?}"),
            false => write!(out, "\"{value:?}\""),
        };
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
    };
    use arrow_ipc::reader::StreamReader;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    fn batch() -> RecordBatch {
        let columns: [(&str, ArrayRef); 5] = [
            ("i", Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(0)]))),
            ("f", Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(0.1), Some(f64::NEG_INFINITY)]))),
            ("t", Arc::new(StringArray::from(vec![Some("a\"b,\n"), Some(""), None]))),
            ("d", Arc::new(Decimal128Array::from(vec![-1, 250, 0]).with_precision_and_scale(18, 2).unwrap())),
            ("s", Arc::new(TimestampMicrosecondArray::from(vec![1, 2, 3]).with_timezone("UTC"))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
    }

    fn encoded(format: Format, batches: &[RecordBatch]) -> Vec<u8> {
        let mut encoder = Encoder::new(format, &batch().schema(), "").unwrap();
        let mut bytes = Vec::new();
        batches.iter().for_each(|batch| bytes.extend(encoder.rows(batch).unwrap()));
        bytes.extend(encoder.finish().unwrap());
        bytes
    }

    #[test]
    fn values_are_exact_in_json() {
        let lines = String::from_utf8(encoded(Format::JsonLines, &[batch()])).unwrap();
        let first = r#"{"i":9223372036854775807,"f":"NaN","t":"a\"b,\n","d":-0.01,"s":"1970-01-01T00:00:00.000001Z"}"#;
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines[0], first);
        assert_eq!(lines[1], r#"{"i":null,"f":0.1,"t":"","d":2.50,"s":"1970-01-01T00:00:00.000002Z"}"#);
        let twice = encoded(Format::Json, &[batch(), batch()]);
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&twice).unwrap();
        assert_eq!((rows.len(), &rows[2]["f"]), (6, &serde_json::json!("-inf")));
        assert_eq!(encoded(Format::Json, &[]), b"[]\n");
    }

    #[test]
    fn other_readers_read_what_is_written() {
        let arrow = encoded(Format::Arrow, &[batch(), batch()]);
        let read: Vec<_> =
            StreamReader::try_new(arrow.as_slice(), None).unwrap().map(|batch| batch.unwrap()).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(format!("{:?}", read[1]), format!("{:?}", batch()));
        let parquet = encoded(Format::Parquet, &[batch(), batch()]);
        let reader = ParquetRecordBatchReaderBuilder::try_new(hyper::body::Bytes::from(parquet)).unwrap();
        let rows: usize = reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 6);
        let csv = String::from_utf8(encoded(Format::Csv, &[batch(), batch()])).unwrap();
        assert!(csv.starts_with("i,f,t,d,s\n9223372036854775807,NaN,\"a\"\"b,\n\",-0.01,"), "{csv}");
        assert_eq!(csv.matches("i,f,t,d,s").count(), 1);
        assert_eq!(encoded(Format::Csv, &[]), b"i,f,t,d,s\n");
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("a")]));
        let texts = RecordBatch::try_from_iter([("t", Arc::clone(&texts)), ("u", texts)]).unwrap();
        let mut encoder = Encoder::new(Format::Csv, &texts.schema(), "\\N").unwrap();
        assert_eq!(encoder.rows(&texts).unwrap(), b"t,u\n\"\",\"\"\n\\N,\\N\na,a\n");
        let mut encoder = Encoder::new(Format::Csv, &texts.schema(), "").unwrap();
        assert_eq!(encoder.rows(&texts).unwrap(), b"t,u\n\"\",\"\"\n,\na,a\n");
    }

    #[test]
    fn the_first_that_is_known_is_accepted() {
        let accepted = |values: &[&'static str]| {
            let headers = values.iter().map(|value| (header::ACCEPT, value.parse().unwrap()));
            Format::accepted(&headers.collect())
        };
        assert_eq!(accepted(&[]), Some(Format::JsonLines));
        assert_eq!(accepted(&["*/*"]), Some(Format::JsonLines));
        assert_eq!(accepted(&["text/html, Text/CSV;q=0.9"]), Some(Format::Csv));
        assert_eq!(accepted(&["image/png", "application/vnd.apache.parquet"]), Some(Format::Parquet));
        assert_eq!(accepted(&["text/csv; q=0, application/json"]), Some(Format::Json));
        assert_eq!(accepted(&["text/html"]), None);
    }
}
