-- Questions that more than one table answers, and what one table alone is not asked through the typed API. Each has a
-- line with its name. DuckDB's answers are in golden.json, made by ../flights/golden.py.

-- airlines_by_name
SELECT a.name, count(*) AS n, avg(f.dep_delay) AS late FROM flights f JOIN airlines a ON f.carrier = a.carrier
GROUP BY a.name ORDER BY n DESC, a.name;
-- weather_by_hour
SELECT f.origin, count(*) AS n, avg(f.dep_delay) AS late, max(w.wind_speed) AS wind FROM flights f
JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour WHERE w.wind_speed > 30 GROUP BY f.origin ORDER BY f.origin;
-- four_tables
SELECT a.name, p.manufacturer, count(*) AS n FROM flights f JOIN airlines a USING (carrier) JOIN planes p USING (tailnum)
JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
WHERE w.visib < 1 AND p.engines = 2 GROUP BY a.name, p.manufacturer ORDER BY n DESC, a.name, p.manufacturer LIMIT 20;
-- without_a_plane
SELECT count(*) AS n FROM flights f LEFT JOIN planes p ON f.tailnum = p.tailnum WHERE p.tailnum IS NULL;
-- anti_join
SELECT count(*) AS n FROM planes p WHERE NOT EXISTS (SELECT 1 FROM flights f WHERE f.tailnum = p.tailnum AND f.month = 1);
-- full_join
SELECT count(*) AS n, count(a.carrier) AS a, count(f.carrier) AS f FROM airlines a
FULL JOIN (SELECT DISTINCT carrier FROM flights WHERE dest = 'HNL') f ON a.carrier = f.carrier;
-- self_join
SELECT count(*) AS n FROM flights a JOIN flights b ON a.tailnum = b.tailnum AND a.day = b.day AND a.month = b.month
AND a.dep_time < b.dep_time WHERE a.month = 3 AND a.day = 14;
-- cross_join
SELECT count(*) AS n FROM airlines a, airlines b WHERE a.carrier < b.carrier;
-- cte
WITH late AS (SELECT carrier, dep_delay FROM flights WHERE dep_delay > 120),
     counted AS (SELECT carrier, count(*) AS n FROM late GROUP BY carrier)
SELECT name, n FROM counted JOIN airlines USING (carrier) WHERE n > 100 ORDER BY n DESC, name;
-- union_all
SELECT origin AS place, count(*) AS n FROM flights WHERE month = 1 GROUP BY origin
UNION ALL SELECT dest, count(*) FROM flights WHERE month = 1 AND dest LIKE 'S%' GROUP BY dest ORDER BY n DESC, place LIMIT 12;
-- union
SELECT count(*) AS n FROM (SELECT origin AS a FROM flights UNION SELECT dest FROM flights) u;
-- intersect
SELECT count(*) AS n FROM (SELECT carrier FROM flights INTERSECT SELECT carrier FROM airlines) u;
-- except
SELECT dest FROM (SELECT DISTINCT dest FROM flights EXCEPT SELECT faa FROM airports) u ORDER BY dest;
-- row_number
SELECT origin, carrier, n FROM (
  SELECT origin, carrier, count(*) AS n, row_number() OVER (PARTITION BY origin ORDER BY count(*) DESC, carrier) AS r
  FROM flights GROUP BY origin, carrier) t WHERE r <= 2 ORDER BY origin, r;
-- running_sum
SELECT day, n, sum(n) OVER (ORDER BY day) AS so_far FROM (SELECT day, count(*) AS n FROM flights WHERE month = 2 GROUP BY day) t
ORDER BY day LIMIT 10;
-- moving_average
SELECT month, avg(n) OVER (ORDER BY month ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth
FROM (SELECT month, count(*) AS n FROM flights GROUP BY month) t ORDER BY month;
-- lag
SELECT month, n - lag(n) OVER (ORDER BY month) AS more FROM (SELECT month, count(*) AS n FROM flights GROUP BY month) t ORDER BY month;
-- case
SELECT CASE WHEN dep_delay IS NULL THEN 'cancelled' WHEN dep_delay > 60 THEN 'late' WHEN dep_delay > 0 THEN 'a little' ELSE 'in time' END AS how,
count(*) AS n FROM flights GROUP BY 1 ORDER BY n;
-- case_in_sum
SELECT origin, sum(CASE WHEN arr_delay > 30 THEN 1 ELSE 0 END) AS late, sum(CASE WHEN month < 7 THEN distance ELSE 0 END) AS far
FROM flights GROUP BY origin ORDER BY origin;
-- date_trunc
SELECT date_trunc('month', time_hour) AS m, count(*) AS n FROM flights GROUP BY 1 ORDER BY 1;
-- extract
SELECT extract(hour FROM time_hour) AS h, count(*) AS n FROM flights GROUP BY 1 ORDER BY 1 LIMIT 5;
-- cast
SELECT CAST(distance AS DOUBLE) / 1000 AS d, CAST(flight AS VARCHAR) AS t FROM flights WHERE flight = 15 AND month = 7 ORDER BY day, origin, d LIMIT 5;
-- coalesce
SELECT coalesce(dep_delay, -1) AS d, count(*) AS n FROM flights WHERE month = 6 AND day < 3 GROUP BY 1 ORDER BY n DESC, d LIMIT 5;
-- modulo
SELECT distance % 7 AS r, count(*) AS n FROM flights GROUP BY 1 ORDER BY 1;
-- strings
SELECT upper(substr(name, 1, 3)) || '-' || lower(carrier) AS code, length(name) AS l, replace(name, 'Air', '*') AS short,
position('Air' IN name) AS at FROM airlines ORDER BY code;
-- trim_and_pad
SELECT lpad(carrier, 4, '.') AS l, rpad(carrier, 4, '.') AS r, reverse(carrier) AS b, trim('  x ') AS t FROM airlines ORDER BY l LIMIT 3;
-- concat_and_split
SELECT split_part(name, ' ', 1) AS first, concat(carrier, ':', name) AS c, starts_with(name, 'A') AS a FROM airlines ORDER BY carrier;
-- median
SELECT origin, median(dep_delay) AS m, median(air_time) AS a FROM flights GROUP BY origin ORDER BY origin;
-- deviations
SELECT origin, stddev(dep_delay) AS s, var_pop(arr_delay) AS v, corr(dep_delay, arr_delay) AS c FROM flights GROUP BY origin ORDER BY origin;
-- scalar_subquery
SELECT count(*) AS n FROM flights WHERE dep_delay > (SELECT avg(dep_delay) FROM flights);
-- correlated
SELECT carrier, flight, dep_delay FROM flights f WHERE dep_delay = (SELECT max(dep_delay) FROM flights g WHERE g.carrier = f.carrier)
ORDER BY dep_delay DESC LIMIT 5;
-- in_subquery
SELECT count(*) AS n FROM flights WHERE tailnum IN (SELECT tailnum FROM planes WHERE year < 1970);
-- not_in_with_null
SELECT count(*) AS n FROM planes WHERE tailnum NOT IN (SELECT tailnum FROM flights);
-- having
SELECT dest, count(*) AS n FROM flights GROUP BY dest HAVING count(*) BETWEEN 100 AND 300 AND max(distance) > 1000 ORDER BY n;
-- distinct_aggregates
SELECT count(DISTINCT tailnum) AS t, count(DISTINCT dest) AS d, sum(DISTINCT distance) AS s, count(*) AS n FROM flights WHERE carrier = 'DL';
-- filter_clause
SELECT origin, count(*) FILTER (WHERE dep_delay > 60) AS late, count(*) AS n FROM flights GROUP BY origin ORDER BY origin;
-- rollup
SELECT origin, month, count(*) AS n FROM flights WHERE month < 3 GROUP BY ROLLUP (origin, month) ORDER BY origin NULLS LAST, month NULLS LAST;
-- decimals
SELECT origin, sum(precip) AS rain, avg(temp) AS t, max(visib) AS v, sum(precip * 2) AS twice FROM weather GROUP BY origin ORDER BY origin;
-- decimal_literals
SELECT count(*) AS n FROM weather WHERE precip > 0.1 AND temp BETWEEN 32.5 AND 50.25 AND wind_speed > 5.75404;
-- integer_division
SELECT CAST(floor(dep_time / 100) AS BIGINT) AS h, count(*) AS n FROM flights WHERE dep_time IS NOT NULL GROUP BY 1 ORDER BY 1;
-- math
SELECT round(avg(distance), 3) AS a, abs(min(dep_delay)) AS m, sqrt(max(distance)) AS q, power(2, 10) AS p FROM flights;
-- greatest
SELECT count(*) AS n, sum(greatest(dep_delay, arr_delay)) AS g FROM flights WHERE dep_delay IS NOT NULL AND arr_delay IS NOT NULL;
-- nullif
SELECT count(nullif(dep_delay, 0)) AS n FROM flights;
-- offset
SELECT carrier, name FROM airlines ORDER BY name LIMIT 4 OFFSET 3;
-- top
SELECT flight, dep_delay FROM flights WHERE dep_delay IS NOT NULL ORDER BY dep_delay DESC, flight LIMIT 7;
-- values
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(n, s) ORDER BY n DESC;
-- recursion
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT sum(n) AS s FROM r;
-- between_tables
SELECT count(*) AS n FROM flights f JOIN weather w ON f.origin = w.origin AND f.time_hour BETWEEN w.time_hour AND w.time_hour
WHERE f.month = 5 AND f.day = 5;
-- no_rows
SELECT f.flight, a.name FROM flights f JOIN airlines a ON a.carrier = f.carrier WHERE f.carrier = 'nobody';
-- group_of_join_without_rows
SELECT count(*) AS n, sum(f.distance) AS s FROM flights f JOIN airlines a ON a.carrier = f.carrier WHERE f.carrier = 'nobody';
