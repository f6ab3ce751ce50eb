-- Questions over the five tables of nycflights13. A line `-- name` starts a query, which ends in a semicolon.
-- golden.py answers them with DuckDB; main.rs loads the same files and compares. A query with ORDER BY is
-- compared row by row, any other as a set of rows.

-- Counting and nulls

-- count_all
SELECT count(*) AS n FROM flights;

-- count_of_nullable_columns
SELECT count(*) AS n, count(dep_time) AS departed, count(arr_time) AS arrived, count(air_time) AS timed,
       count(tailnum) AS known FROM flights;

-- is_null
SELECT count(*) AS n FROM flights WHERE dep_time IS NULL;

-- is_not_null_both
SELECT count(*) AS n FROM flights WHERE dep_time IS NOT NULL AND arr_time IS NULL;

-- nulls_by_carrier
SELECT carrier, count(*) AS n, count(arr_delay) AS with_delay, count(*) - count(arr_delay) AS without
FROM flights GROUP BY carrier ORDER BY carrier;

-- aggregates_skip_nulls
SELECT count(arr_delay) AS n, sum(arr_delay) AS total, min(arr_delay) AS low, max(arr_delay) AS high,
       avg(arr_delay) AS mean FROM flights;

-- aggregates_of_nothing
SELECT count(*) AS n, count(arr_delay) AS known, sum(arr_delay) AS total, min(dest) AS first, avg(distance) AS mean
FROM flights WHERE distance < 0;

-- groups_of_nothing
SELECT carrier, count(*) AS n FROM flights WHERE distance < 0 GROUP BY carrier;

-- aggregates_of_only_nulls
SELECT count(*) AS n, count(arr_delay) AS known, sum(arr_delay) AS total, max(arr_delay) AS high
FROM flights WHERE air_time IS NULL AND arr_delay IS NULL;

-- null_is_a_group
SELECT speed, count(*) AS n FROM planes GROUP BY speed ORDER BY speed;

-- null_group_first
SELECT speed, count(*) AS n FROM planes GROUP BY speed ORDER BY speed NULLS FIRST;

-- null_group_descending
SELECT speed, count(*) AS n FROM planes GROUP BY speed ORDER BY speed DESC;

-- null_group_descending_first
SELECT speed, count(*) AS n FROM planes GROUP BY speed ORDER BY speed DESC NULLS FIRST;

-- Three-valued logic

-- comparison_drops_nulls
SELECT count(*) AS n FROM flights WHERE arr_delay > 0;

-- not_of_comparison_drops_nulls
SELECT count(*) AS n FROM flights WHERE NOT (arr_delay > 0);

-- excluded_middle_fails_on_nulls
SELECT count(*) AS n FROM flights WHERE arr_delay > 0 OR NOT (arr_delay > 0);

-- null_or_true
SELECT count(*) AS n FROM flights WHERE arr_delay > 0 OR distance > 2000;

-- null_and_false_under_not
SELECT count(*) AS n FROM flights WHERE NOT (arr_delay > 60 AND distance > 1000);

-- not_of_or
SELECT count(*) AS n FROM flights WHERE NOT (dep_delay > 15 OR arr_delay > 15);

-- double_negation
SELECT count(*) AS n FROM flights WHERE NOT (NOT (arr_delay <= 0));

-- equals_null_is_never_true
SELECT count(*) AS n FROM flights WHERE dep_time = NULL;

-- in_list_with_null
SELECT count(*) AS n FROM planes WHERE speed IN (90, 432, NULL);

-- not_in_list_with_null_is_never_true
SELECT count(*) AS n FROM planes WHERE speed NOT IN (90, 432, NULL);

-- not_in_drops_nulls
SELECT count(*) AS n FROM planes WHERE speed NOT IN (90, 432);

-- not_between_drops_nulls
SELECT count(*) AS n FROM flights WHERE dep_delay NOT BETWEEN -10 AND 10;

-- is_null_under_or
SELECT count(*) AS n FROM flights WHERE arr_delay IS NULL OR arr_delay > 500;

-- not_is_null
SELECT count(*) AS n FROM weather WHERE NOT (wind_gust IS NULL) AND NOT (pressure IS NULL);

-- Enums, text, IN and LIKE

-- equality_on_text
SELECT count(*) AS n, avg(distance) AS mean FROM flights WHERE carrier = 'UA';

-- equality_on_absent_text
SELECT count(*) AS n FROM flights WHERE carrier = 'ZZ';

-- inequality_on_text
SELECT count(*) AS n FROM flights WHERE origin <> 'JFK';

-- in_text
SELECT carrier, origin, count(*) AS n FROM flights
WHERE carrier IN ('AA', 'DL', 'UA', 'ZZ') AND dest IN ('SFO', 'LAX', 'SEA')
GROUP BY carrier, origin ORDER BY carrier, origin;

-- not_in_text
SELECT dest, count(*) AS n FROM flights WHERE dest NOT IN ('ORD', 'ATL', 'LAX') AND tailnum NOT IN ('N725MQ')
GROUP BY dest HAVING count(*) > 8000 ORDER BY n DESC, dest;

-- in_integers
SELECT month, count(*) AS n FROM flights WHERE month IN (1, 2, 12, 13) GROUP BY month ORDER BY month;

-- range_on_text
SELECT count(*) AS n, min(dest) AS first, max(dest) AS last FROM flights WHERE dest >= 'M' AND dest < 'P';

-- like_prefix
SELECT manufacturer, count(*) AS n FROM planes WHERE manufacturer LIKE 'AIRBUS%' GROUP BY manufacturer ORDER BY 1;

-- like_infix
SELECT name FROM airports WHERE name LIKE '%Intl%' AND alt > 5000 ORDER BY name;

-- like_underscore
SELECT faa, name FROM airports WHERE faa LIKE '_GA' ORDER BY faa;

-- like_suffix
SELECT carrier, name FROM airlines WHERE name LIKE '%Airlines Inc.' ORDER BY carrier;

-- not_like_drops_nulls
SELECT count(*) AS n FROM flights WHERE tailnum NOT LIKE 'N%';

-- min_max_of_text
SELECT origin, min(tailnum) AS first, max(tailnum) AS last FROM flights GROUP BY origin ORDER BY origin;

-- Ranges and dates

-- between
SELECT count(*) AS n FROM flights WHERE distance BETWEEN 1000 AND 1500;

-- open_range
SELECT count(*) AS n FROM flights WHERE dep_delay > -5 AND dep_delay <= 5;

-- empty_range
SELECT count(*) AS n FROM flights WHERE distance BETWEEN 1500 AND 1000;

-- beyond_the_type
SELECT count(*) AS n FROM flights WHERE month < 1000 AND day > -1000 AND year <> 100000;

-- literal_on_the_left
SELECT count(*) AS n FROM flights WHERE 1000 < dep_delay;

-- fraction_against_integers
SELECT count(*) AS n FROM flights WHERE dep_delay > 10.5 AND dep_delay < 12.5;

-- timestamp_range
SELECT count(*) AS n, min(time_hour) AS first, max(time_hour) AS last FROM flights
WHERE time_hour >= '2013-07-04T00:00:00Z' AND time_hour < '2013-07-05T00:00:00Z';

-- timestamp_equality
SELECT carrier, flight, dest FROM flights WHERE time_hour = '2013-01-01T10:00:00Z' ORDER BY carrier, flight;

-- timestamp_between_by_group
SELECT origin, count(*) AS n, avg(temp) AS mean FROM weather
WHERE time_hour BETWEEN '2013-02-08T00:00:00Z' AND '2013-02-10T00:00:00Z' GROUP BY origin ORDER BY origin;

-- timestamp_as_key
SELECT time_hour, count(*) AS n FROM flights WHERE month = 5 AND day = 3 GROUP BY time_hour ORDER BY time_hour;

-- Columns against columns, and expressions

-- column_to_column
SELECT count(*) AS n FROM flights WHERE arr_delay < dep_delay;

-- column_to_column_equal
SELECT carrier, count(*) AS n FROM flights WHERE dep_time = sched_dep_time GROUP BY carrier ORDER BY carrier;

-- between_columns
SELECT count(*) AS n FROM flights WHERE dep_delay BETWEEN 0 AND arr_delay;

-- sum_of_difference
SELECT carrier, sum(dep_delay - arr_delay) AS gained, avg(dep_delay - arr_delay) AS mean FROM flights
GROUP BY carrier ORDER BY gained DESC;

-- filter_on_expression
SELECT carrier, flight, dest, air_time, distance FROM flights
WHERE distance * 60 / air_time > 600 ORDER BY distance, carrier, flight, air_time;

-- expression_in_projection
SELECT carrier, flight, dep_delay - arr_delay AS gain, distance / air_time * 60 AS mph FROM flights
WHERE dep_delay - arr_delay > 70 ORDER BY gain DESC, carrier, flight;

-- precedence
SELECT sum(hour * 60 + minute) AS a, sum(hour * (60 + minute)) AS b, sum(hour - minute - 1) AS c,
       sum(hour - (minute - 1)) AS d, sum(-minute + 2 * hour) AS e FROM flights;

-- arithmetic_over_aggregates
SELECT origin, sum(distance) / sum(air_time) AS pace, max(arr_delay) - min(arr_delay) AS spread FROM flights
GROUP BY origin ORDER BY origin;

-- group_by_expression
SELECT hour - 12 AS from_noon, count(*) AS n FROM flights WHERE origin = 'LGA' GROUP BY hour - 12 ORDER BY 1;

-- order_by_expression
SELECT dest, count(*) AS n FROM flights GROUP BY dest ORDER BY count(*) * -1, dest LIMIT 12;

-- Grouping, distinct, having

-- group_by_two
SELECT origin, month, count(*) AS n, avg(dep_delay) AS mean FROM flights GROUP BY origin, month
ORDER BY origin, month;

-- group_by_three
SELECT carrier, origin, month, sum(distance) AS miles FROM flights WHERE month <= 3
GROUP BY carrier, origin, month ORDER BY carrier, origin, month;

-- group_by_four_with_nulls
SELECT type, engines, engine, speed, count(*) AS n FROM planes GROUP BY type, engines, engine, speed;

-- group_by_without_aggregate
SELECT type, engine FROM planes GROUP BY type, engine;

-- group_not_selected
SELECT count(*) AS n FROM flights GROUP BY carrier ORDER BY n;

-- many_groups
SELECT dest, carrier, count(*) AS n, max(arr_delay) AS worst FROM flights GROUP BY dest, carrier
ORDER BY worst DESC NULLS LAST, dest, carrier LIMIT 25;

-- having
SELECT carrier, count(*) AS n FROM flights GROUP BY carrier HAVING count(*) > 20000 ORDER BY n DESC;

-- having_on_unselected_aggregate
SELECT dest FROM flights GROUP BY dest HAVING avg(arr_delay) > 20 AND count(*) >= 100 ORDER BY dest;

-- having_or
SELECT month FROM flights GROUP BY month HAVING max(dep_delay) > 1000 OR min(dep_delay) < -32 ORDER BY month;

-- having_on_key
SELECT month, day, count(*) AS n FROM flights GROUP BY month, day HAVING month = 2 AND count(*) < 900
ORDER BY day;

-- having_drops_null
SELECT dest, max(air_time) AS longest FROM flights GROUP BY dest HAVING max(air_time) < 55 ORDER BY dest;

-- count_distinct
SELECT count(DISTINCT carrier) AS carriers, count(DISTINCT tailnum) AS tails, count(DISTINCT dep_delay) AS delays,
       count(DISTINCT time_hour) AS hours FROM flights;

-- count_distinct_by_group
SELECT origin, count(DISTINCT dest) AS dests, count(DISTINCT tailnum) AS tails FROM flights
GROUP BY origin ORDER BY origin;

-- count_distinct_filtered
SELECT count(DISTINCT dest) AS n FROM flights WHERE carrier = 'B6' AND arr_delay IS NULL;

-- distinct
SELECT DISTINCT origin FROM flights;

-- distinct_pairs_with_nulls
SELECT DISTINCT engines, speed FROM planes ORDER BY engines, speed NULLS FIRST;

-- distinct_with_limit
SELECT DISTINCT manufacturer FROM planes ORDER BY manufacturer DESC LIMIT 5 OFFSET 3;

-- Rows: projections, order, limit

-- top_delays
SELECT year, month, day, carrier, flight, dep_delay FROM flights
ORDER BY dep_delay DESC, month, day, carrier, flight LIMIT 10;

-- order_nulls_last
SELECT tailnum, year FROM planes WHERE manufacturer = 'DOUGLAS' OR seats < 7 ORDER BY year, tailnum;

-- order_nulls_first
SELECT tailnum, year FROM planes WHERE engines <> 2 ORDER BY year NULLS FIRST, tailnum DESC;

-- order_descending_nulls_last
SELECT origin, time_hour, wind_gust FROM weather WHERE month = 3 AND day = 7
ORDER BY wind_gust DESC, origin, time_hour;

-- limit_and_offset
SELECT faa, name, alt FROM airports ORDER BY alt DESC, faa LIMIT 7 OFFSET 5;

-- limit_zero
SELECT faa, name FROM airports ORDER BY faa LIMIT 0;

-- offset_past_the_end
SELECT carrier FROM airlines ORDER BY carrier LIMIT 10 OFFSET 16;

-- all_columns
SELECT * FROM airlines ORDER BY carrier;

-- all_columns_filtered
SELECT * FROM flights WHERE dep_delay > 850 ORDER BY dep_delay DESC, flight;

-- one_plane
SELECT * FROM planes WHERE tailnum = 'N201AA';

-- same_column_twice
SELECT carrier, carrier AS again, name FROM airlines WHERE carrier < 'B' ORDER BY again;

-- Decimals and floats

-- decimal_sums
SELECT origin, sum(precip) AS rain, max(precip) AS most, min(visib) AS least, avg(temp) AS mean FROM weather
GROUP BY origin ORDER BY origin;

-- decimal_comparisons
SELECT count(*) AS n FROM weather WHERE precip > 0.05 AND temp BETWEEN 32 AND 50.5 AND visib <= 9.99;

-- decimal_in
SELECT visib, count(*) AS n FROM weather WHERE visib IN (0.06, 0.12, 0.25, 10) GROUP BY visib ORDER BY visib;

-- decimal_finer_than_the_column
SELECT count(*) AS n FROM weather WHERE precip = 0.015 OR precip > 0.995;

-- decimal_arithmetic
SELECT origin, sum(temp - dewp) AS spread, max(temp - dewp) AS widest, min(precip * 10 + visib) AS mixed
FROM weather GROUP BY origin ORDER BY origin;

-- float_aggregates
SELECT origin, count(wind_gust) AS n, sum(wind_speed) AS total, avg(wind_gust) AS mean, max(wind_speed) AS high
FROM weather GROUP BY origin ORDER BY origin;

-- float_outlier
SELECT origin, time_hour, wind_speed FROM weather WHERE wind_speed > 40 ORDER BY wind_speed DESC, origin, time_hour;

-- float_equality
SELECT count(*) AS n FROM weather WHERE wind_speed = 10.357019999999999;

-- float_expression
SELECT month, avg(wind_gust - wind_speed) AS mean, avg(pressure / 1013.25) AS atm FROM weather WHERE wind_speed < 100
GROUP BY month ORDER BY month;

-- decimal_with_float
SELECT count(*) AS n, avg(temp * wind_speed) AS mean FROM weather WHERE temp > wind_speed;

-- float_keys
SELECT wind_dir, count(*) AS n, count(DISTINCT pressure) AS pressures FROM weather GROUP BY wind_dir
ORDER BY wind_dir NULLS FIRST;

-- The inferred table

-- inferred_types
SELECT tz, dst, count(*) AS n, min(alt) AS low, max(alt) AS high, avg(lat) AS lat FROM airports
GROUP BY tz, dst ORDER BY tz, dst;

-- inferred_nulls
SELECT faa, name FROM airports WHERE tzone IS NULL ORDER BY faa;

-- inferred_box
SELECT faa, lat, lon FROM airports WHERE lat BETWEEN 40.5 AND 41 AND lon BETWEEN -74.5 AND -73.5 ORDER BY faa;

-- inferred_negative
SELECT count(*) AS n, min(alt) AS low FROM airports WHERE alt < 0;

-- Semi-joins: column IN (SELECT key FROM another table)

-- flights_of_old_planes
SELECT count(*) AS n, avg(arr_delay) AS delay FROM flights
WHERE tailnum IN (SELECT tailnum FROM planes WHERE year < 1990);

-- flights_by_carrier_of_small_planes
SELECT carrier, count(*) AS n, sum(distance) AS miles FROM flights
WHERE tailnum IN (SELECT tailnum FROM planes WHERE seats < 60) GROUP BY carrier ORDER BY carrier;

-- flights_of_known_planes
SELECT count(*) AS n, count(DISTINCT tailnum) AS planes FROM flights WHERE tailnum IN (SELECT tailnum FROM planes);

-- flights_of_unknown_planes
SELECT carrier, count(*) AS n, count(tailnum) AS named FROM flights
WHERE tailnum NOT IN (SELECT tailnum FROM planes) GROUP BY carrier ORDER BY n DESC, carrier;

-- not_in_under_not
SELECT count(*) AS n FROM flights WHERE NOT (tailnum NOT IN (SELECT tailnum FROM planes WHERE engine = 'Turbo-jet'));

-- destinations_up_high
SELECT dest, count(*) AS n FROM flights WHERE dest IN (SELECT faa FROM airports WHERE alt > 5000)
GROUP BY dest ORDER BY n DESC, dest;

-- destinations_without_an_airport
SELECT dest, count(*) AS n, min(distance) AS near FROM flights WHERE dest NOT IN (SELECT faa FROM airports)
GROUP BY dest ORDER BY dest;

-- destinations_like_a_name
SELECT count(*) AS n, max(air_time) AS longest FROM flights
WHERE dest IN (SELECT faa FROM airports WHERE name LIKE '%Intl%' AND tz = -8);

-- carriers_by_name
SELECT carrier, count(*) AS n FROM flights WHERE carrier IN (SELECT carrier FROM airlines WHERE name LIKE '%Airlines%')
AND month = 2 GROUP BY carrier HAVING count(*) > 100 ORDER BY n DESC, carrier;

-- airlines_that_fly_far
SELECT carrier, name FROM airlines WHERE carrier IN (SELECT carrier FROM flights WHERE distance > 2500) ORDER BY carrier;

-- airlines_that_never_fly_short
SELECT carrier, name FROM airlines WHERE carrier NOT IN (SELECT carrier FROM flights WHERE distance < 200)
ORDER BY carrier;

-- airports_never_flown_to
SELECT tz, count(*) AS n FROM airports WHERE faa NOT IN (SELECT dest FROM flights) GROUP BY tz ORDER BY tz;

-- planes_of_one_carrier
SELECT manufacturer, count(*) AS n, avg(seats) AS seats FROM planes
WHERE tailnum IN (SELECT tailnum FROM flights WHERE carrier = 'B6') GROUP BY manufacturer ORDER BY n DESC, manufacturer;

-- planes_not_in_with_null_keys
SELECT count(*) AS n FROM planes WHERE tailnum NOT IN (SELECT tailnum FROM flights);

-- planes_not_in_without_null_keys
SELECT count(*) AS n FROM planes WHERE tailnum NOT IN (SELECT tailnum FROM flights
WHERE tailnum IS NOT NULL AND month = 1);

-- planes_not_in_some_flights
SELECT count(*) AS n, min(year) AS oldest FROM planes
WHERE tailnum NOT IN (SELECT tailnum FROM flights WHERE month <= 6 AND tailnum LIKE 'N%');

-- integers_of_another_width
SELECT count(*) AS n, sum(distance) AS miles FROM flights WHERE distance IN (SELECT alt FROM airports WHERE alt > 100);

-- integers_narrower
SELECT hour, count(*) AS n FROM flights WHERE hour IN (SELECT engines FROM planes) GROUP BY hour ORDER BY hour;

-- integers_with_negative_keys
SELECT dep_delay, count(*) AS n FROM flights WHERE dep_delay IN (SELECT alt FROM airports WHERE alt < 4)
GROUP BY dep_delay ORDER BY dep_delay;

-- integers_not_in
SELECT count(*) AS n, count(dep_delay) AS known FROM flights
WHERE dep_delay NOT IN (SELECT alt FROM airports WHERE alt BETWEEN -50 AND 60);

-- integers_not_in_with_null_keys
SELECT count(*) AS n FROM flights WHERE air_time NOT IN (SELECT speed FROM planes);

-- integers_in_with_null_keys
SELECT air_time, count(*) AS n FROM flights WHERE air_time IN (SELECT speed FROM planes) GROUP BY air_time
ORDER BY air_time;

-- no_keys
SELECT count(*) AS n FROM flights WHERE tailnum IN (SELECT tailnum FROM planes WHERE year > 3000);

-- not_in_no_keys_keeps_nulls
SELECT count(*) AS n, count(tailnum) AS named, count(dep_delay) AS departed FROM flights
WHERE tailnum NOT IN (SELECT tailnum FROM planes WHERE year > 3000)
AND dep_delay NOT IN (SELECT alt FROM airports WHERE alt < -1000);

-- rainy_hours
SELECT origin, count(*) AS n, avg(dep_delay) AS delay FROM flights
WHERE time_hour IN (SELECT time_hour FROM weather WHERE precip > 0.5) GROUP BY origin ORDER BY origin;

-- dry_hours
SELECT count(*) AS n, avg(dep_delay) AS delay FROM flights
WHERE time_hour NOT IN (SELECT time_hour FROM weather WHERE precip > 0);

-- hours_without_weather
SELECT month, count(*) AS n FROM flights WHERE time_hour NOT IN (SELECT time_hour FROM weather) GROUP BY month
ORDER BY month;

-- decimals_of_one_scale
SELECT count(*) AS n, min(temp) AS low, max(temp) AS high FROM weather
WHERE temp IN (SELECT dewp FROM weather WHERE precip > 0.3);

-- decimals_not_in
SELECT visib, count(*) AS n FROM weather WHERE visib NOT IN (SELECT precip FROM weather WHERE precip > 0)
GROUP BY visib ORDER BY visib;

-- nested_twice
SELECT name FROM airlines WHERE carrier IN (SELECT carrier FROM flights WHERE tailnum IN
(SELECT tailnum FROM planes WHERE manufacturer = 'CESSNA')) ORDER BY name;

-- nested_and_negated
SELECT manufacturer, count(*) AS n FROM planes WHERE tailnum IN (SELECT tailnum FROM flights
WHERE dest NOT IN (SELECT faa FROM airports) AND carrier IN (SELECT carrier FROM airlines WHERE name LIKE 'J%'))
GROUP BY manufacturer ORDER BY manufacturer;

-- over_the_same_table
SELECT count(*) AS n, avg(distance) AS mean FROM flights
WHERE tailnum IN (SELECT tailnum FROM flights WHERE dep_delay > 500) AND arr_delay <= 0;

-- two_semi_joins
SELECT origin, count(*) AS n FROM flights WHERE tailnum IN (SELECT tailnum FROM planes WHERE engines > 2)
OR dest IN (SELECT faa FROM airports WHERE lat > 60) GROUP BY origin ORDER BY origin;

-- semi_join_beside_other_conditions
SELECT carrier, month, count(*) AS n FROM flights WHERE dep_delay > 60 AND carrier <> 'EV'
AND tailnum IN (SELECT tailnum FROM planes WHERE year >= 2010 AND manufacturer IN ('BOEING', 'EMBRAER'))
AND NOT (dest IN (SELECT faa FROM airports WHERE tz = -5)) GROUP BY carrier, month ORDER BY carrier, month;

-- semi_join_selects_rows
SELECT flight, dest, distance FROM flights WHERE dest IN (SELECT faa FROM airports WHERE alt > 6000)
AND month = 3 AND day < 4 ORDER BY distance DESC, dest, flight, day LIMIT 20;

-- Names of the select list that are columns of the table too

-- group_by_takes_the_column
SELECT max(month) AS carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY n;

-- group_by_takes_both_columns
SELECT month AS origin, count(*) AS n FROM flights GROUP BY origin, month ORDER BY origin, n;

-- group_by_an_expression_of_the_column
SELECT month + 1 AS month, count(*) AS n FROM flights GROUP BY month + 1 ORDER BY month;

-- group_by_a_name_that_is_no_column
SELECT hour - 1 AS before, count(*) AS n FROM flights GROUP BY before ORDER BY before;

-- order_by_takes_the_name
SELECT 0 - month AS month, count(*) AS n FROM flights GROUP BY month ORDER BY month;

-- order_by_an_expression_takes_the_column
SELECT 0 - month AS month, count(*) AS n FROM flights GROUP BY month ORDER BY month * 2;

-- having_takes_the_key
SELECT sum(distance) AS month, count(*) AS n FROM flights GROUP BY month HAVING month > 9 ORDER BY month;

-- having_takes_the_name
SELECT carrier, count(*) AS month FROM flights GROUP BY carrier HAVING month > 30000 ORDER BY carrier;

-- where_and_aggregates_take_the_column
SELECT day AS month, sum(month) AS n FROM flights WHERE month > 10 GROUP BY day ORDER BY month;

-- distinct_takes_the_name_in_its_order
SELECT DISTINCT 0 - month AS month FROM flights ORDER BY month;

-- position_in_parentheses
SELECT day AS month, count(*) AS n FROM flights GROUP BY (1) ORDER BY (1) DESC;

-- order_by_names_that_changed_places
SELECT day AS month, month AS day, count(*) AS n FROM flights WHERE day < 5 GROUP BY month, day ORDER BY month, day;

-- order_by_a_column_behind_a_name
SELECT day AS month, count(*) AS n FROM flights WHERE day < 5 GROUP BY flights.month, day
ORDER BY flights.month DESC, month;

-- order_by_positions_of_names_that_are_columns
SELECT month AS day, day AS month, count(*) AS n FROM flights WHERE day < 5 GROUP BY 1, 2 ORDER BY 2, 1;
