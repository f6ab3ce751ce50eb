-- q1_1: revenue that a discount cost in a year
SELECT sum(lo_extendedprice * lo_discount) AS revenue
FROM lineorder
WHERE lo_orderdate.d_year = 1993 AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25;

-- q1_2: in a month
SELECT sum(lo_extendedprice * lo_discount) AS revenue
FROM lineorder
WHERE lo_orderdate.d_yearmonthnum = 199401 AND lo_discount BETWEEN 4 AND 6 AND lo_quantity BETWEEN 26 AND 35;

-- q1_3: in a week
SELECT sum(lo_extendedprice * lo_discount) AS revenue
FROM lineorder
WHERE lo_orderdate.d_weeknuminyear = 6 AND lo_orderdate.d_year = 1994
  AND lo_discount BETWEEN 5 AND 7 AND lo_quantity BETWEEN 26 AND 35;

-- q2_1: revenue of a category's brands, by year
SELECT sum(lo_revenue) AS revenue, lo_orderdate.d_year AS year, lo_partkey.p_brand1 AS brand
FROM lineorder
WHERE lo_partkey.p_category = 'MFGR#12' AND lo_suppkey.s_region = 'AMERICA'
GROUP BY year, brand
ORDER BY year, brand;

-- q2_2: of eight brands
SELECT sum(lo_revenue) AS revenue, lo_orderdate.d_year AS year, lo_partkey.p_brand1 AS brand
FROM lineorder
WHERE lo_partkey.p_brand1 BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND lo_suppkey.s_region = 'ASIA'
GROUP BY year, brand
ORDER BY year, brand;

-- q2_3: of one brand
SELECT sum(lo_revenue) AS revenue, lo_orderdate.d_year AS year, lo_partkey.p_brand1 AS brand
FROM lineorder
WHERE lo_partkey.p_brand1 = 'MFGR#2239' AND lo_suppkey.s_region = 'EUROPE'
GROUP BY year, brand
ORDER BY year, brand;

-- q3_1: revenue between the nations of a region, by year
SELECT lo_custkey.c_nation AS customer, lo_suppkey.s_nation AS supplier, lo_orderdate.d_year AS year,
       sum(lo_revenue) AS revenue
FROM lineorder
WHERE lo_custkey.c_region = 'ASIA' AND lo_suppkey.s_region = 'ASIA'
  AND lo_orderdate.d_year >= 1992 AND lo_orderdate.d_year <= 1997
GROUP BY customer, supplier, year
ORDER BY year, revenue DESC;

-- q3_2: between the cities of a nation
SELECT lo_custkey.c_city AS customer, lo_suppkey.s_city AS supplier, lo_orderdate.d_year AS year,
       sum(lo_revenue) AS revenue
FROM lineorder
WHERE lo_custkey.c_nation = 'UNITED STATES' AND lo_suppkey.s_nation = 'UNITED STATES'
  AND lo_orderdate.d_year >= 1992 AND lo_orderdate.d_year <= 1997
GROUP BY customer, supplier, year
ORDER BY year, revenue DESC;

-- q3_3: between two cities
SELECT lo_custkey.c_city AS customer, lo_suppkey.s_city AS supplier, lo_orderdate.d_year AS year,
       sum(lo_revenue) AS revenue
FROM lineorder
WHERE (lo_custkey.c_city = 'UNITED KI1' OR lo_custkey.c_city = 'UNITED KI5')
  AND (lo_suppkey.s_city = 'UNITED KI1' OR lo_suppkey.s_city = 'UNITED KI5')
  AND lo_orderdate.d_year >= 1992 AND lo_orderdate.d_year <= 1997
GROUP BY customer, supplier, year
ORDER BY year, revenue DESC;

-- q3_4: in a month
SELECT lo_custkey.c_city AS customer, lo_suppkey.s_city AS supplier, lo_orderdate.d_year AS year,
       sum(lo_revenue) AS revenue
FROM lineorder
WHERE (lo_custkey.c_city = 'UNITED KI1' OR lo_custkey.c_city = 'UNITED KI5')
  AND (lo_suppkey.s_city = 'UNITED KI1' OR lo_suppkey.s_city = 'UNITED KI5')
  AND lo_orderdate.d_yearmonth = 'Dec1997'
GROUP BY customer, supplier, year
ORDER BY year, revenue DESC;

-- q4_1: profit by the customers' nations and years
SELECT lo_orderdate.d_year AS year, lo_custkey.c_nation AS nation, sum(lo_revenue - lo_supplycost) AS profit
FROM lineorder
WHERE lo_custkey.c_region = 'AMERICA' AND lo_suppkey.s_region = 'AMERICA'
  AND (lo_partkey.p_mfgr = 'MFGR#1' OR lo_partkey.p_mfgr = 'MFGR#2')
GROUP BY year, nation
ORDER BY year, nation;

-- q4_2: by the suppliers' nations and categories, in two years
SELECT lo_orderdate.d_year AS year, lo_suppkey.s_nation AS nation, lo_partkey.p_category AS category,
       sum(lo_revenue - lo_supplycost) AS profit
FROM lineorder
WHERE lo_custkey.c_region = 'AMERICA' AND lo_suppkey.s_region = 'AMERICA'
  AND (lo_orderdate.d_year = 1997 OR lo_orderdate.d_year = 1998)
  AND (lo_partkey.p_mfgr = 'MFGR#1' OR lo_partkey.p_mfgr = 'MFGR#2')
GROUP BY year, nation, category
ORDER BY year, nation, category;

-- q4_3: by a nation's cities and the brands of a category
SELECT lo_orderdate.d_year AS year, lo_suppkey.s_city AS city, lo_partkey.p_brand1 AS brand,
       sum(lo_revenue - lo_supplycost) AS profit
FROM lineorder
WHERE lo_custkey.c_region = 'AMERICA' AND lo_suppkey.s_nation = 'UNITED STATES'
  AND (lo_orderdate.d_year = 1997 OR lo_orderdate.d_year = 1998)
  AND lo_partkey.p_category = 'MFGR#14'
GROUP BY year, city, brand
ORDER BY year, city, brand;
