//! The eight tables of TPC-H as Arrow batches, generated while they are read.

use std::{
    fmt::{Display, Write as _},
    sync::Arc,
};

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, builder::StringBuilder,
};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use tpchgen::{
    dates::TPCHDate,
    decimal::TPCHDecimal,
    generators::{
        CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
        PartSuppGenerator, RegionGenerator, SupplierGenerator,
    },
};

/// Rows of one batch: the longest rows (lineitem's, about 150 bytes) make 2.5 MB.
const BATCH_ROWS: usize = 16_384;

/// One table of the benchmark, its rows still to be generated.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) schema: SchemaRef,
    /// How many rows there will be; of lineitem about as many, the exact number shows only at the end.
    pub(crate) rows: u64,
    pub(crate) batches: Batches,
}

/// The rows of a table, in the order of its key.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// All tables at a scale: 1 is 8.7 million rows, about 1 GB as text.
///
/// # Errors
/// None that a caller could cause.
pub(crate) fn tables(scale: f64) -> Result<Vec<Table>, ArrowError> {
    let times = |rows: f64| rows * scale;
    Ok(vec![
        table("region", 5.0, RegionGenerator::new(scale, 1, 1).iter(), region)?,
        table("nation", 25.0, NationGenerator::new(scale, 1, 1).iter(), nation)?,
        table("supplier", times(1e4), SupplierGenerator::new(scale, 1, 1).iter(), supplier)?,
        table("customer", times(1.5e5), CustomerGenerator::new(scale, 1, 1).iter(), customer)?,
        table("part", times(2e5), PartGenerator::new(scale, 1, 1).iter(), part)?,
        table("partsupp", times(8e5), PartSuppGenerator::new(scale, 1, 1).iter(), partsupp)?,
        table("orders", times(1.5e6), OrderGenerator::new(scale, 1, 1).iter(), orders)?,
        table("lineitem", times(6_001_215.0), LineItemGenerator::new(scale, 1, 1).iter(), lineitem)?,
    ])
}

pub(super) fn table<R: 'static>(
    name: &'static str,
    rows: f64,
    mut generator: impl Iterator<Item = R> + Send + 'static,
    batch: fn(&[R]) -> Result<RecordBatch, ArrowError>,
) -> Result<Table, ArrowError> {
    let schema = batch(&[])?.schema();
    let batches = std::iter::from_fn(move || {
        let rows: Vec<R> = generator.by_ref().take(BATCH_ROWS).collect();
        (!rows.is_empty()).then(|| batch(&rows))
    });
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating estimate")]
    let rows = rows as u64;
    Ok(Table { name, schema, rows, batches: Box::new(batches) })
}

/// Declares how rows become a batch: the columns, each a field of the row by the same name, and the
/// function below that makes an array of it.
macro_rules! columns {
    ($name:ident: $row:path { $($column:ident $array:ident),* $(,)? }) => {
        fn $name(rows: &[$row]) -> Result<RecordBatch, ArrowError> {
            RecordBatch::try_from_iter([$((stringify!($column), $array(rows.iter().map(|row| &row.$column)))),*])
        }
    };
}
#[allow(unused_imports, reason = "the benchmarks take this file without the demo's other generators")]
pub(super) use columns;

columns!(region: tpchgen::generators::Region<'static> {
    r_regionkey int64,
    r_name text,
    r_comment text,
});

columns!(nation: tpchgen::generators::Nation<'static> {
    n_nationkey int64,
    n_name text,
    n_regionkey int64,
    n_comment text,
});

columns!(supplier: tpchgen::generators::Supplier {
    s_suppkey int64,
    s_name text,
    s_address text,
    s_nationkey int64,
    s_phone text,
    s_acctbal money,
    s_comment text,
});

columns!(customer: tpchgen::generators::Customer<'static> {
    c_custkey int64,
    c_name text,
    c_address text,
    c_nationkey int64,
    c_phone text,
    c_acctbal money,
    c_mktsegment text,
    c_comment text,
});

columns!(part: tpchgen::generators::Part<'static> {
    p_partkey int64,
    p_name text,
    p_mfgr text,
    p_brand text,
    p_type text,
    p_size int32,
    p_container text,
    p_retailprice money,
    p_comment text,
});

columns!(partsupp: tpchgen::generators::PartSupp<'static> {
    ps_partkey int64,
    ps_suppkey int64,
    ps_availqty int32,
    ps_supplycost money,
    ps_comment text,
});

columns!(orders: tpchgen::generators::Order<'static> {
    o_orderkey int64,
    o_custkey int64,
    o_orderstatus text,
    o_totalprice money,
    o_orderdate date,
    o_orderpriority text,
    o_clerk text,
    o_shippriority int32,
    o_comment text,
});

columns!(lineitem: tpchgen::generators::LineItem<'static> {
    l_orderkey int64,
    l_partkey int64,
    l_suppkey int64,
    l_linenumber int32,
    l_quantity units,
    l_extendedprice money,
    l_discount money,
    l_tax money,
    l_returnflag text,
    l_linestatus text,
    l_shipdate date,
    l_commitdate date,
    l_receiptdate date,
    l_shipinstruct text,
    l_shipmode text,
    l_comment text,
});

pub(super) fn int64<'a>(values: impl Iterator<Item = &'a i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values.copied()))
}

pub(super) fn int32<'a>(values: impl Iterator<Item = &'a i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values.copied()))
}

fn date<'a>(values: impl Iterator<Item = &'a TPCHDate>) -> ArrayRef {
    Arc::new(Date32Array::from_iter_values(values.map(|date| date.to_unix_epoch())))
}

fn money<'a>(values: impl Iterator<Item = &'a TPCHDecimal>) -> ArrayRef {
    cents(values.map(|amount| amount.into_inner()))
}

/// Whole numbers in a decimal column.
fn units<'a>(values: impl Iterator<Item = &'a i64>) -> ArrayRef {
    cents(values.map(|units| units * 100))
}

fn cents(values: impl Iterator<Item = i64>) -> ArrayRef {
    let array = Decimal128Array::from_iter_values(values.map(i128::from));
    Arc::new(array.with_data_type(DataType::Decimal128(15, 2)))
}

pub(super) fn text(values: impl Iterator<Item = impl Display>) -> ArrayRef {
    let mut builder = StringBuilder::new();
    for value in values {
        // A string builder takes whatever is written.
        let _ = write!(builder, "{value}");
        builder.append_value("");
    }
    Arc::new(builder.finish())
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Array as _,
        cast::AsArray as _,
        types::{Date32Type, Decimal128Type, Int64Type},
    };

    use super::*;

    /// The first rows of lineitem as the benchmark's own generator writes them.
    #[test]
    fn lineitem_begins_as_published() {
        let mut tables = tables(0.001).unwrap();
        let lineitem = tables.pop().unwrap();
        assert_eq!(lineitem.name, "lineitem");
        let batches: Vec<_> = lineitem.batches.map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 6005);
        let batch = &batches[0];
        assert_eq!(batch.schema(), lineitem.schema);
        assert_eq!(batch["l_orderkey"].as_primitive::<Int64Type>().value(0), 1);
        assert_eq!(batch["l_quantity"].as_primitive::<Decimal128Type>().value_as_string(0), "17.00");
        assert_eq!(batch["l_shipdate"].as_primitive::<Date32Type>().value(0), 9568); // 1996-03-13
        assert_eq!(batch["l_shipinstruct"].as_string::<i32>().value(0), "DELIVER IN PERSON");
        assert_eq!(batch["l_shipmode"].as_string::<i32>().value(0), "TRUCK");
        assert_eq!(batch["l_comment"].null_count(), 0);
    }

    #[test]
    fn tables_have_the_rows_that_they_announce() {
        for table in tables(0.01).unwrap().into_iter().take(7) {
            let rows: usize = table.batches.map(|batch| batch.unwrap().num_rows()).sum();
            assert_eq!(rows as u64, table.rows, "{}", table.name);
        }
    }
}
