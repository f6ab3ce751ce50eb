//! The Star Schema Benchmark (O'Neil, O'Neil and Chen, revision 3), made of the rows of TPC-H: `lineorder` is lineitem
//! with its order, and the tables that it refers to have the paper's hierarchies.
//!
//! What differs from the paper's own generator:
//!
//! - There are as many parts as in TPC-H, 200,000 times the scale; at scale 1 that is the paper's number.
//! - Customers and suppliers are the first fifth of TPC-H's (30,000 and 2,000 times the scale), and five of TPC-H's
//!   keys are one of them: so all of them have orders.
//! - What TPC-H does not have (the digit of a city, the number of a brand) comes from a hash of the key.
//! - Money is in cents, flags are booleans.

use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use tpchgen::{
    dates::TPCHDate,
    distribution::Distributions,
    generators::{
        CustomerGenerator, LineItem, LineItemGenerator, NationGenerator, Order, OrderGenerator, Part,
        PartGenerator, RegionGenerator, SupplierGenerator,
    },
    text::TextPool,
};

use super::{
    references::{self, referring},
    tpch::{Table, columns, int32, int64, table, text},
};

/// Bytes of the text that comments are cut from: none of them is part of this benchmark.
const TEXT_BYTES: i32 = 1 << 16;
/// TPC-H's customers, and suppliers, that are one here.
const KEYS_OF_ONE: i64 = 5;
/// Characters of a nation's name in the name of a city.
const CITY_PREFIX: usize = 9;
/// Brands of a category.
const BRANDS: u64 = 40;

/// All tables at a scale: 1 is 6 million rows of lineorder.
///
/// # Errors
/// None that a caller could cause.
pub(crate) fn tables(scale: f64) -> Result<Vec<Table>, ArrowError> {
    let (words, pool) = (Distributions::static_default(), pool());
    let people = |rows: i64| (rows + KEYS_OF_ONE - 1) / KEYS_OF_ONE;
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let estimate = |rows: i64| rows as f64;
    let customers = people(CustomerGenerator::calculate_row_count(scale, 1, 1));
    let suppliers = people(SupplierGenerator::calculate_row_count(scale, 1, 1));
    let places = Places::new();

    let all = CustomerGenerator::new_with_distributions_and_text_pool(scale, 1, 1, words, pool).iter();
    let of = places.clone();
    let customer_rows = (1..=customers).zip(all).map(move |(key, row)| Customer {
        c_custkey: int(key),
        c_name: row.c_name.to_string(),
        c_address: row.c_address.to_string(),
        c_city: of.city(row.c_nationkey, hash(1, key)),
        c_nation: of.nation(row.c_nationkey),
        c_region: of.region(row.c_nationkey),
        c_phone: row.c_phone.to_string(),
        c_mktsegment: row.c_mktsegment,
    });
    let all = SupplierGenerator::new_with_distributions_and_text_pool(scale, 1, 1, words, pool).iter();
    let supplier_rows = (1..=suppliers).zip(all).map(move |(key, row)| Supplier {
        s_suppkey: int(key),
        s_name: row.s_name.to_string(),
        s_address: row.s_address.to_string(),
        s_city: places.city(row.s_nationkey, hash(2, key)),
        s_nation: places.nation(row.s_nationkey),
        s_region: places.region(row.s_nationkey),
        s_phone: row.s_phone.to_string(),
    });
    let parts = PartGenerator::new_with_distributions_and_text_pool(scale, 1, 1, words, pool);
    let items = LineItemGenerator::new_with_distributions_and_text_pool(scale, 1, 1, words, pool);
    let orders = OrderGenerator::new_with_distributions_and_text_pool(scale, 1, 1, words, pool);
    let days = calendar();
    let part_rows = estimate(PartGenerator::calculate_row_count(scale, 1, 1));

    let lineorder =
        table("lineorder", 6_001_215.0 * scale, line_orders(orders.iter(), items.iter()), lineorder)?;
    Ok(vec![
        table("date", estimate(days.len().try_into().unwrap_or(i64::MAX)), days.into_iter(), date)?,
        table("supplier", estimate(suppliers), supplier_rows, supplier)?,
        table("customer", estimate(customers), customer_rows, customer)?,
        table("part", part_rows, parts.iter().map(ssb_part), part)?,
        referring(lineorder, &references::SSB),
    ])
}

fn pool() -> &'static TextPool {
    static POOL: OnceLock<TextPool> = OnceLock::new();
    POOL.get_or_init(|| TextPool::new(TEXT_BYTES, Distributions::static_default()))
}

/// Keys and cents of a scale that fits here.
fn int(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// A number that a key always has (the finalizer of SplitMix64).
fn hash(salt: u64, key: i64) -> u64 {
    let mut z = key.cast_unsigned().wrapping_add(salt.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The nations by key, each with its region.
#[derive(Clone)]
struct Places(Arc<Vec<(&'static str, &'static str)>>);

impl Places {
    fn new() -> Self {
        let (words, pool) = (Distributions::static_default(), pool());
        let regions = RegionGenerator::new_with_distributions_and_text_pool(words, pool);
        let regions: Vec<&str> = regions.iter().map(|region| region.r_name).collect();
        let nations = NationGenerator::new_with_distributions_and_text_pool(words, pool);
        let region = |key: i64| usize::try_from(key).ok().and_then(|key| regions.get(key)).copied();
        let named = nations.iter().map(|n| (n.n_name, region(n.n_regionkey).unwrap_or_default()));
        Self(Arc::new(named.collect()))
    }

    fn of(&self, nation: i64) -> (&'static str, &'static str) {
        usize::try_from(nation).ok().and_then(|nation| self.0.get(nation)).copied().unwrap_or_default()
    }

    fn nation(&self, nation: i64) -> &'static str {
        self.of(nation).0
    }

    fn region(&self, nation: i64) -> &'static str {
        self.of(nation).1
    }

    /// One of a nation's ten cities.
    fn city(&self, nation: i64, hash: u64) -> String {
        let name = self.nation(nation);
        format!("{:CITY_PREFIX$}{}", &name[..name.len().min(CITY_PREFIX)], hash % 10)
    }
}

struct Customer {
    c_custkey: i32,
    c_name: String,
    c_address: String,
    c_city: String,
    c_nation: &'static str,
    c_region: &'static str,
    c_phone: String,
    c_mktsegment: &'static str,
}

columns!(customer: Customer {
    c_custkey int32,
    c_name text,
    c_address text,
    c_city text,
    c_nation text,
    c_region text,
    c_phone text,
    c_mktsegment text,
});

struct Supplier {
    s_suppkey: i32,
    s_name: String,
    s_address: String,
    s_city: String,
    s_nation: &'static str,
    s_region: &'static str,
    s_phone: String,
}

columns!(supplier: Supplier {
    s_suppkey int32,
    s_name text,
    s_address text,
    s_city text,
    s_nation text,
    s_region text,
    s_phone text,
});

struct SsbPart {
    p_partkey: i32,
    p_name: String,
    p_mfgr: String,
    p_category: String,
    p_brand1: String,
    p_color: String,
    p_type: &'static str,
    p_size: i32,
    p_container: &'static str,
}

columns!(part: SsbPart {
    p_partkey int32,
    p_name text,
    p_mfgr text,
    p_category text,
    p_brand1 text,
    p_color text,
    p_type text,
    p_size int32,
    p_container text,
});

/// The 25 brands of TPC-H, five of each manufacturer, are the categories; each has 40 brands here. Of the five colours
/// in a name one is the part's, two are its name.
fn ssb_part(row: Part<'static>) -> SsbPart {
    let digits = |text: String| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let category = format!("MFGR#{}", digits(row.p_brand.to_string()));
    let name = row.p_name.to_string();
    let words: Vec<&str> = name.split(' ').collect();
    let word = |i: usize| words.get(i).copied().unwrap_or_default();
    SsbPart {
        p_partkey: int(row.p_partkey),
        p_name: format!("{} {}", word(1), word(2)),
        p_mfgr: format!("MFGR#{}", digits(row.p_mfgr.to_string())),
        p_brand1: format!("{category}{}", 1 + hash(3, row.p_partkey) % BRANDS),
        p_category: category,
        p_color: word(0).to_owned(),
        p_type: row.p_type,
        p_size: row.p_size,
        p_container: row.p_container,
    }
}

struct LineOrder {
    lo_orderkey: i64,
    lo_linenumber: i32,
    lo_custkey: i32,
    lo_partkey: i32,
    lo_suppkey: i32,
    lo_orderdate: i32,
    lo_orderpriority: &'static str,
    lo_shippriority: i32,
    lo_quantity: i32,
    lo_extendedprice: i32,
    lo_ordtotalprice: i32,
    lo_discount: i32,
    lo_revenue: i32,
    lo_supplycost: i32,
    lo_tax: i32,
    lo_commitdate: i32,
    lo_shipmode: &'static str,
}

columns!(lineorder: LineOrder {
    lo_orderkey int64,
    lo_linenumber int32,
    lo_custkey int32,
    lo_partkey int32,
    lo_suppkey int32,
    lo_orderdate int32,
    lo_orderpriority text,
    lo_shippriority int32,
    lo_quantity int32,
    lo_extendedprice int32,
    lo_ordtotalprice int32,
    lo_discount int32,
    lo_revenue int32,
    lo_supplycost int32,
    lo_tax int32,
    lo_commitdate int32,
    lo_shipmode text,
});

/// Every line with its order; both come by the order's key.
fn line_orders(
    mut orders: impl Iterator<Item = Order<'static>>,
    items: impl Iterator<Item = LineItem<'static>>,
) -> impl Iterator<Item = LineOrder> {
    let mut order: Option<Order<'static>> = None;
    items.filter_map(move |item| {
        while order.as_ref().is_none_or(|order| order.o_orderkey < item.l_orderkey) {
            order = Some(orders.next()?);
        }
        let order = order.as_ref()?;
        let (price, discount) = (item.l_extendedprice.into_inner(), item.l_discount.into_inner());
        let retail = price / item.l_quantity.max(1);
        let person = |key: i64| int((key - 1) / KEYS_OF_ONE + 1);
        Some(LineOrder {
            lo_orderkey: item.l_orderkey,
            lo_linenumber: item.l_linenumber,
            lo_custkey: person(order.o_custkey),
            lo_partkey: int(item.l_partkey),
            lo_suppkey: person(item.l_suppkey),
            lo_orderdate: date_key(&order.o_orderdate),
            lo_orderpriority: order.o_orderpriority,
            lo_shippriority: order.o_shippriority,
            lo_quantity: int(item.l_quantity),
            lo_extendedprice: int(price),
            lo_ordtotalprice: int(order.o_totalprice.into_inner()),
            lo_discount: int(discount),
            lo_revenue: int(price * (100 - discount) / 100),
            lo_supplycost: int(6 * retail / 10),
            lo_tax: int(item.l_tax.into_inner()),
            lo_commitdate: date_key(&item.l_commitdate),
            lo_shipmode: item.l_shipmode,
        })
    })
}

/// A date as the decimal number yyyymmdd.
fn date_key(date: &TPCHDate) -> i32 {
    let (year, month, day) = date.to_ymd();
    (1900 + year) * 10_000 + month * 100 + day
}

struct Day {
    d_datekey: i32,
    d_date: String,
    d_dayofweek: &'static str,
    d_month: &'static str,
    d_year: i32,
    d_yearmonthnum: i32,
    d_yearmonth: String,
    d_daynuminweek: i32,
    d_daynuminmonth: i32,
    d_daynuminyear: i32,
    d_monthnuminyear: i32,
    d_weeknuminyear: i32,
    d_sellingseason: &'static str,
    d_lastdayinweekfl: bool,
    d_lastdayinmonthfl: bool,
    d_holidayfl: bool,
    d_weekdayfl: bool,
}

columns!(date: Day {
    d_datekey int32,
    d_date text,
    d_dayofweek text,
    d_month text,
    d_year int32,
    d_yearmonthnum int32,
    d_yearmonth text,
    d_daynuminweek int32,
    d_daynuminmonth int32,
    d_daynuminyear int32,
    d_monthnuminyear int32,
    d_weeknuminyear int32,
    d_sellingseason text,
    d_lastdayinweekfl flag,
    d_lastdayinmonthfl flag,
    d_holidayfl flag,
    d_weekdayfl flag,
});

fn flag<'a>(values: impl Iterator<Item = &'a bool>) -> ArrayRef {
    Arc::new(values.map(|value| Some(*value)).collect::<BooleanArray>())
}

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [(&str, i32, &str); 12] = [
    ("January", 31, "Winter"),
    ("February", 28, "Winter"),
    ("March", 31, "Winter"),
    ("April", 30, "Spring"),
    ("May", 31, "Summer"),
    ("June", 30, "Summer"),
    ("July", 31, "Summer"),
    ("August", 31, "Summer"),
    ("September", 30, "Fall"),
    ("October", 31, "Fall"),
    ("November", 30, "Christmas"),
    ("December", 31, "Christmas"),
];
/// Month and day.
const HOLIDAYS: [(i32, i32); 6] = [(1, 1), (5, 31), (7, 4), (9, 6), (11, 25), (12, 25)];
/// 1 January 1992 was a Wednesday.
const FIRST_WEEKDAY: usize = 3;

/// Every day of the seven years from 1992 on.
fn calendar() -> Vec<Day> {
    let mut days = Vec::new();
    let mut weekday = FIRST_WEEKDAY;
    for year in 1992..=1998 {
        let mut of_year = 0;
        for (month, (name, length, season)) in (1..).zip(MONTHS) {
            let length = length + i32::from(month == 2 && year % 4 == 0);
            for day in 1..=length {
                of_year += 1;
                days.push(Day {
                    d_datekey: year * 10_000 + month * 100 + day,
                    d_date: format!("{name} {day}, {year}"),
                    d_dayofweek: WEEKDAYS[weekday],
                    d_month: name,
                    d_year: year,
                    d_yearmonthnum: year * 100 + month,
                    d_yearmonth: format!("{}{year}", &name[..3]),
                    d_daynuminweek: i32::try_from(weekday).unwrap_or(0) + 1,
                    d_daynuminmonth: day,
                    d_daynuminyear: of_year,
                    d_monthnuminyear: month,
                    d_weeknuminyear: (of_year - 1) / 7 + 1,
                    d_sellingseason: season,
                    d_lastdayinweekfl: weekday == 6,
                    d_lastdayinmonthfl: day == length,
                    d_holidayfl: HOLIDAYS.contains(&(month, day)),
                    d_weekdayfl: (1..=5).contains(&weekday),
                });
                weekday = (weekday + 1) % 7;
            }
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow_array::{cast::AsArray as _, types::Int32Type};

    use super::*;

    fn batches(name: &str) -> Vec<RecordBatch> {
        let table = tables(0.01).unwrap().into_iter().find(|table| table.name == name).unwrap();
        table.batches.map(Result::unwrap).collect()
    }

    fn ints(batches: &[RecordBatch], column: &str) -> Vec<i32> {
        batches.iter().flat_map(|batch| batch[column].as_primitive::<Int32Type>().values().to_vec()).collect()
    }

    fn texts(batches: &[RecordBatch], column: &str) -> Vec<String> {
        let of = |batch: &RecordBatch| {
            batch[column].as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
        };
        batches.iter().flat_map(of).collect()
    }

    #[test]
    fn hierarchies_have_the_papers_sizes() {
        let count =
            |name: &str, column: &str| texts(&batches(name), column).iter().collect::<BTreeSet<_>>().len();
        assert_eq!(["c_region", "c_nation"].map(|column| count("customer", column)), [5, 25]);
        assert_eq!(["p_mfgr", "p_category"].map(|column| count("part", column)), [5, 25]);
        let brands = texts(&batches("part"), "p_brand1");
        assert!(brands.iter().collect::<BTreeSet<_>>().len() > 800);
        let categories = texts(&batches("part"), "p_category");
        assert!(brands.iter().zip(&categories).all(|(brand, category)| brand.starts_with(category)));
        assert!(texts(&batches("customer"), "c_city").contains(&"UNITED KI1".to_owned()));

        let dates = batches("date");
        let keys = ints(&dates, "d_datekey");
        assert_eq!((keys.len(), keys[0], keys[59], keys[2556]), (2557, 19_920_101, 19_920_229, 19_981_231));
        // Christmas of 1997 was a Thursday.
        let at = keys.iter().position(|key| *key == 19_971_225).unwrap();
        assert_eq!(texts(&dates, "d_dayofweek")[at], "Thursday");
        assert_eq!(texts(&dates, "d_yearmonth")[at], "Dec1997");
        assert_eq!(ints(&dates, "d_weeknuminyear")[at], 52);
    }

    #[test]
    fn every_reference_is_there_and_money_adds_up() {
        let lines = batches("lineorder");
        for (column, key) in references::SSB {
            let (other, key) = key.split_once('.').unwrap();
            let keys: BTreeSet<i32> = ints(&batches(other), key).into_iter().collect();
            assert!(ints(&lines, column).iter().all(|value| keys.contains(value)), "{column}");
        }
        let of = |column| ints(&lines, column);
        let (price, discount, revenue) = (of("lo_extendedprice"), of("lo_discount"), of("lo_revenue"));
        assert_eq!(price.len(), 60_175);
        assert!((0..price.len()).all(|i| revenue[i] == price[i] * (100 - discount[i]) / 100));
        // As the orders of TPC-H begin.
        let first = (of("lo_partkey")[0], of("lo_suppkey")[0], of("lo_orderdate")[0], of("lo_commitdate")[0]);
        assert_eq!((first.0, first.2, first.3), (1552, 19_960_102, 19_960_212));
        assert_eq!((of("lo_quantity")[0], discount[0]), (17, 4));
    }
}
