//! How many rows EXPLAIN expects, of questions about flights as people ask them. `docs/src/sql/execution.md` tells of it.

use arrow_array::cast::AsArray as _;
use basalt_client::Client;

use crate::{
    nodes::{TABLES, command, data},
    promises::number,
    serve,
};

/// Conditions on flights.
const FILTERS: [&str; 60] = [
    "carrier = 'UA'",
    "carrier = 'HA'",
    "carrier = 'OO'",
    "origin = 'JFK'",
    "dest = 'ORD'",
    "dest = 'ANC'",
    "tailnum = 'N14228'",
    "flight = 1545",
    "month = 1",
    "month = 12 AND day = 25",
    "day = 31",
    "hour = 6",
    "hour BETWEEN 6 AND 9",
    "minute = 0",
    "dep_delay > 60",
    "dep_delay > 120",
    "dep_delay < 0",
    "arr_delay <= -30",
    "dep_delay BETWEEN 0 AND 15",
    "distance > 2000",
    "distance BETWEEN 200 AND 500",
    "distance = 1400",
    "air_time > 300",
    "air_time < 60",
    "carrier IN ('UA','AA','DL')",
    "dest IN ('LAX','SFO','SEA','PDX')",
    "month IN (6,7,8)",
    "dest IN ('HNL','ANC')",
    "flight IN (1,2,3,4,5)",
    "tailnum LIKE 'N1%'",
    "tailnum LIKE '%AA'",
    "dest LIKE 'S%'",
    "tailnum LIKE '%Q%'",
    "dep_time IS NULL",
    "arr_delay IS NULL",
    "tailnum IS NULL",
    "dep_delay IS NOT NULL",
    "origin = 'JFK' AND carrier = 'B6'",
    "origin = 'EWR' AND carrier = 'UA'",
    "carrier = 'HA' AND dest = 'HNL'",
    "dest = 'HNL' AND distance > 4500",
    "distance > 2000 AND air_time > 300",
    "dep_delay > 60 AND arr_delay > 60",
    "dep_delay > 120 AND arr_delay < 0",
    "month = 7 AND origin = 'LGA'",
    "month = 2 AND dep_delay > 30",
    "hour > 18 AND dep_delay > 30",
    "carrier = 'AA' OR carrier = 'US'",
    "dep_delay > 60 OR arr_delay > 60",
    "origin = 'JFK' OR dest = 'LAX'",
    "dep_time IS NULL OR arr_time IS NULL",
    "NOT (carrier = 'UA')",
    "dest <> 'ATL' AND month <> 1",
    "arr_delay - dep_delay > 20",
    "air_time / distance > 0.2",
    "time_hour >= TIMESTAMP '2013-07-01 00:00:00' AND time_hour < TIMESTAMP '2013-07-08 00:00:00'",
    "time_hour > TIMESTAMP '2013-12-24 00:00:00'",
    "sched_dep_time = 600",
    "sched_dep_time BETWEEN 600 AND 700 AND origin = 'EWR'",
    "dep_time > 2300",
];

/// Groups of flights, and conditions on them.
const GROUPS: [(&str, &str); 17] = [
    ("carrier", ""),
    ("origin", ""),
    ("dest", ""),
    ("month", ""),
    ("tailnum", ""),
    ("flight", ""),
    ("origin, dest", ""),
    ("carrier, origin", ""),
    ("month, day", ""),
    ("carrier, dest", ""),
    ("hour", ""),
    ("month, carrier", ""),
    ("tailnum, carrier", ""),
    ("dest", "WHERE origin = 'JFK'"),
    ("carrier", "WHERE dest = 'ORD'"),
    ("tailnum", "WHERE carrier = 'HA'"),
    ("dest", "WHERE dep_delay > 120"),
];

const JOINS: [&str; 8] = [
    "airlines a ON f.carrier = a.carrier",
    "airlines a ON f.carrier = a.carrier WHERE a.name LIKE 'United%'",
    "planes p ON f.tailnum = p.tailnum",
    "planes p ON f.tailnum = p.tailnum WHERE p.manufacturer = 'BOEING'",
    "planes p ON f.tailnum = p.tailnum WHERE p.year < 1990 AND f.origin = 'LGA'",
    "weather w ON f.origin = w.origin AND f.time_hour = w.time_hour",
    "weather w ON f.origin = w.origin AND f.time_hour = w.time_hour WHERE w.wind_speed > 25",
    "airports a ON f.dest = a.faa WHERE a.alt > 5000",
];

/// How many rows the statement should give.
async fn expected(client: &Client, sql: &str) -> i64 {
    let answer = client.sql(format!("EXPLAIN {sql}")).collect().await.unwrap();
    let plans = answer.batches[0].column(1).as_string::<i32>();
    let physical = plans.iter().flatten().last().unwrap();
    let root = physical.lines().next().unwrap();
    let (_, rows) = root.rsplit_once(", rows=~").unwrap_or_else(|| panic!("{sql}: {physical}"));
    rows.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_expected_within_a_factor_of_two() {
    let address = serve("memory:", |_| {}).await;
    for table in TABLES {
        let file = data().join(format!("{table}.csv"));
        // Without the references of their schemas, with which joins are none.
        command(&address, &["load", table, file.to_str().unwrap(), "--null", ",NA"]).await.unwrap();
    }
    let client = Client::connect(&address).await.unwrap();
    let filters = FILTERS.iter().map(|filter| format!("SELECT * FROM flights WHERE {filter}"));
    let groups = GROUPS
        .iter()
        .map(|(keys, filter)| format!("SELECT {keys}, count(*) AS n FROM flights {filter} GROUP BY {keys}"));
    let joins = JOINS.iter().map(|join| format!("SELECT f.flight, f.origin FROM flights f JOIN {join}"));
    let (mut within, mut all, mut wrong) = (0, 0, Vec::new());
    for sql in filters.chain(groups).chain(joins) {
        let rows = number(&client, &format!("SELECT count(*) FROM ({sql})")).await.max(1);
        let is_within = |told: i64| told <= 2 * rows && rows <= 2 * told;
        let mut told = expected(&client, &sql).await.max(1);
        // Looking takes a tenth of a second at most, which is little where all tests run at once.
        for _ in 0..4 {
            if is_within(told) {
                break;
            }
            told = expected(&client, &sql).await.max(1);
        }
        all += 1;
        match is_within(told) {
            true => within += 1,
            false => wrong.push(format!("{sql}: {told} for {rows}")),
        }
    }
    assert!(within >= 83 && all == 85, "{within} of {all}: {wrong:#?}");
}
