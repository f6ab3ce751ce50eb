SELECT count(*) AS n, count(flag) AS flags, sum(id) AS ids, min(id) AS first, max(id) AS last FROM all
SELECT id, flag, i8, i16, i32, u8, u16, u32, u64, f32, f64, price, wide, day, at, name, maker FROM all ORDER BY id
SELECT flag, count(*) AS n, sum(price) AS price, sum(wide) AS wide, sum(f32) AS f32, min(day) AS day, max(at) AS at FROM all GROUP BY flag ORDER BY flag
SELECT name, count(*) AS n, sum(i32) AS sum, min(i8) AS least, max(u64) AS most FROM all GROUP BY name ORDER BY name
SELECT maker.country AS country, count(*) AS n FROM all GROUP BY country ORDER BY country
SELECT count(*) AS n FROM all WHERE maker.country = 'DE' AND day >= '2020-06-01' AND NOT flag
SELECT id FROM all WHERE id BETWEEN 85 AND 125 OR id IN (589, 590, 619, 620, 633, 634) ORDER BY id
SELECT count(*) AS n FROM all WHERE f64 > 1e300 OR f64 = 0
SELECT id, country FROM makers ORDER BY id
SELECT count(*) AS n FROM empty
