-- What the documentation of other engines shows, over streams of our own; windows are ours, everything else is as they write it.

-- RisingWave: time windows
SELECT company, window_start, window_end, count(*) AS n, sum(fare) AS total FROM TUMBLE(trips, started, INTERVAL '2 MINUTES') GROUP BY company, window_start, window_end;
SELECT window_start, count(*) AS n FROM TUMBLE(trips, started, INTERVAL '1 HOUR', INTERVAL '15 MINUTES') GROUP BY window_start;
SELECT id, window_start, window_end FROM HOP(trips, started, INTERVAL '1 MINUTE', INTERVAL '2 MINUTES');
SELECT avg(minutes) AS mean, window_start FROM HOP(trips, started, INTERVAL '1 HOUR', INTERVAL '2 HOURS') GROUP BY window_start;
SELECT t.window_start, c.region, count(*) AS n FROM TUMBLE(orders, at, INTERVAL '1 MINUTE') t JOIN customers c ON t.customer = c.id GROUP BY t.window_start, c.region;
SELECT window_start, sum(fare) AS total FROM TUMBLE(trips, started, INTERVAL '1 day') GROUP BY window_start ORDER BY window_start ASC;

-- RisingWave: window functions
SELECT visitor, at, first_value(at) OVER (PARTITION BY visitor ORDER BY at SESSION WITH GAP INTERVAL '5 MINUTES') AS began FROM clicks;
SELECT id, lag(fare, 2) OVER (PARTITION BY taxi ORDER BY started) AS before FROM trips;
SELECT sensor, avg(temperature) OVER (PARTITION BY sensor ORDER BY at ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING) AS smooth FROM readings;
SELECT sensor, avg(temperature) OVER (PARTITION BY sensor ORDER BY at ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING) AS earlier FROM readings;
SELECT sensor, sum(temperature) OVER (PARTITION BY sensor ORDER BY at ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING EXCLUDE CURRENT ROW) AS others FROM readings;
SELECT sensor, sum(temperature) OVER (PARTITION BY sensor ORDER BY at RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND INTERVAL '10 minutes' FOLLOWING) AS s FROM readings;
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY taxi ORDER BY fare DESC) AS rank FROM trips [UNBOUNDED]) WHERE rank <= 3;
SELECT id, last_value(detail) IGNORE NULLS OVER (PARTITION BY taxi ORDER BY started) AS filled FROM trips;

-- RisingWave: joins
SELECT o.id, p.method FROM orders [UNBOUNDED] o LEFT JOIN payments [UNBOUNDED] p ON o.id = p.order_id;
SELECT o.id, p.method FROM orders o JOIN payments p ON o.id = p.order_id AND p.at BETWEEN o.at AND o.at + INTERVAL '1 hour';
SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.product = r.currency;
SELECT o.id, c.name FROM orders o JOIN customers FOR SYSTEM_TIME AS OF PROCTIME() c ON o.customer = c.id;
SELECT o.id, q.price FROM orders o ASOF LEFT JOIN quotes q ON o.product = q.symbol AND q.at <= o.at;
SELECT o.id, q.price FROM orders o ASOF LEFT JOIN quotes q ON o.product = q.symbol AND q.at >= o.at;
SELECT * FROM orders [UNBOUNDED] NATURAL JOIN customers;

-- RisingWave: top n, dedup, set
SELECT id, fare FROM trips [UNBOUNDED] ORDER BY fare DESC LIMIT 10;
SELECT id, fare FROM trips [UNBOUNDED] ORDER BY fare DESC LIMIT 10 OFFSET 5;
SELECT id, fare FROM trips [UNBOUNDED] ORDER BY fare DESC FETCH FIRST 3 ROWS WITH TIES;
SELECT DISTINCT ON (taxi) taxi, id, fare FROM trips [UNBOUNDED] ORDER BY taxi, fare DESC;
SELECT city FROM trips [UNBOUNDED] UNION SELECT product AS city FROM orders [UNBOUNDED];
SELECT id, at FROM orders UNION ALL SELECT id, at FROM payments;
SELECT window_start, count(*) AS n FROM TUMBLE((SELECT id, at FROM orders UNION ALL SELECT id, at FROM payments), at, INTERVAL '1 minute') GROUP BY window_start;
WITH log AS changelog FROM totals SELECT * FROM log;
SELECT * FROM GAP_FILL(readings, at, INTERVAL '1 minute', FILL_LOCF(temperature), FILL_INTERPOLATE(humidity));

-- RisingWave: aggregates
SELECT taxi, array_agg(id ORDER BY started) AS ids FROM trips [UNBOUNDED] GROUP BY taxi;
SELECT taxi, string_agg(city, ', ' ORDER BY started DESC) AS cities FROM trips [UNBOUNDED] GROUP BY taxi;
SELECT taxi, jsonb_agg(fare ORDER BY started) AS fares FROM trips [UNBOUNDED] GROUP BY taxi;
SELECT jsonb_object_agg(city, fare) AS f FROM trips [RANGE 1 MINUTE];
SELECT taxi, mode() WITHIN GROUP (ORDER BY city) AS usual FROM trips [UNBOUNDED] GROUP BY taxi;
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY fare) AS p90 FROM trips [RANGE 1 HOUR];
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY fare) AS p50 FROM trips [RANGE 1 HOUR];
SELECT approx_percentile(0.99, 0.01) WITHIN GROUP (ORDER BY fare) AS p99 FROM trips [RANGE 1 HOUR];
SELECT approx_count_distinct(taxi) AS n FROM trips [RANGE 1 HOUR];
SELECT city, bool_and(fare > 0) AS ok, bool_or(fare > 100) AS dear, bit_and(minutes) AS b FROM trips [UNBOUNDED] GROUP BY city;
SELECT stddev_pop(fare) AS a, var_samp(fare) AS b FROM trips [UNBOUNDED];
SELECT count(*) FILTER (WHERE fare > 10) AS n FROM trips [UNBOUNDED];
SELECT city, company, sum(fare) AS total FROM trips [UNBOUNDED] GROUP BY GROUPING SETS ((city), (company), ());
SELECT city, company, sum(fare) AS total FROM trips [UNBOUNDED] GROUP BY ROLLUP (city, company);

-- RisingWave: expressions
SELECT id, to_char(started, 'YYYY-MM-DD HH24:MI:SS') AS t FROM trips;
SELECT id, date_trunc('month', started) AS m, extract(dow FROM started) AS d FROM trips;
SELECT id, (detail::jsonb)->>'kind' AS kind FROM trips;
SELECT id, regexp_match(detail, '([a-z]+)-([0-9]+)') AS m FROM trips;
SELECT id, unnest(tags) AS tag FROM trips;
SELECT id, tags[1] AS first, array_length(tags) AS n FROM trips;
SELECT id, ARRAY['a', 'b'] AS l FROM trips;
SELECT id, CASE WHEN fare > 10 THEN 'dear' ELSE 'cheap' END AS kind, coalesce(detail, '-') AS d FROM trips;
SELECT id, split_part(detail, '-', 2) AS p, left(city, 3) AS c, md5(city) AS h FROM trips;
SELECT id, minutes & 3 AS low, minutes << 2 AS up, minutes # 5 AS x FROM trips;
SELECT id, to_timestamp(1672567200 + minutes) AS t FROM trips;
SELECT id, started AT TIME ZONE 'Europe/Berlin' AS t FROM trips;
SELECT 1 + 1 AS two;
SELECT * FROM generate_series(1, 5) AS g (n);
SELECT t.n, t.word FROM (VALUES (1, 'one'), (2, 'two')) AS t (n, word);

-- RisingWave: subqueries
SELECT id, fare FROM trips [UNBOUNDED] WHERE fare > (SELECT avg(fare) FROM trips [UNBOUNDED]);
SELECT o.id FROM orders [UNBOUNDED] o WHERE EXISTS (SELECT 1 FROM payments [UNBOUNDED] p WHERE p.order_id = o.id AND p.paid <> o.qty);
SELECT customer FROM orders [UNBOUNDED] WHERE customer NOT IN (SELECT id FROM customers WHERE region = 'north');
SELECT c, n FROM (SELECT customer AS c, count(*) AS n FROM orders [UNBOUNDED] GROUP BY customer) AS t WHERE n > 2;
SELECT c.name, l.id FROM customers c, LATERAL (SELECT id FROM orders [UNBOUNDED] o WHERE o.customer = c.id ORDER BY amount DESC LIMIT 3) l;

-- Materialize: patterns
SELECT taxi, id, fare FROM (SELECT DISTINCT taxi FROM trips [UNBOUNDED]) g, LATERAL (SELECT id, fare FROM trips [UNBOUNDED] t WHERE t.taxi = g.taxi ORDER BY fare DESC LIMIT 3);
SELECT DISTINCT ON (taxi) taxi, id, started FROM trips [UNBOUNDED] ORDER BY taxi, started DESC;
SELECT content, count(*) AS n FROM (SELECT city AS content FROM trips [RANGE 5 MINUTES]) GROUP BY content;
SELECT customer, max(amount) AS most FROM orders [UNBOUNDED] GROUP BY customer HAVING max(amount) > 5;
SELECT o.id FROM orders [UNBOUNDED] o WHERE o.id NOT IN (SELECT order_id FROM payments [UNBOUNDED]);
SELECT a.id FROM trips [UNBOUNDED] a WHERE a.city = ANY (ARRAY['Rome', 'Paris']);
SELECT customer, list_agg(product) AS l FROM orders [UNBOUNDED] GROUP BY customer;
SELECT customer, jsonb_agg(product) AS l FROM orders [UNBOUNDED] GROUP BY customer;
SELECT customer, map_agg(product, amount) AS m FROM orders [UNBOUNDED] GROUP BY customer;
SELECT date_bin('15 minutes', started, TIMESTAMP '2001-01-01') AS b, count(*) AS n FROM trips [UNBOUNDED] GROUP BY 1;
SELECT id, date_bin(INTERVAL '1 hour', started, '2001-01-01') AS b FROM trips;
WITH big AS (SELECT * FROM orders [UNBOUNDED] WHERE amount > 10), paid AS (SELECT order_id FROM payments [UNBOUNDED]) SELECT big.id FROM big JOIN paid ON big.id = paid.order_id;
SELECT customer, spent FROM totals ORDER BY spent DESC LIMIT 5;
SELECT product FROM orders [UNBOUNDED] EXCEPT SELECT symbol AS product FROM quotes [UNBOUNDED];
SELECT product FROM orders [UNBOUNDED] INTERSECT ALL SELECT symbol AS product FROM quotes [UNBOUNDED];
VALUES (1, 2, 3), (4, 5, 6);
SELECT id, lag(amount) OVER (PARTITION BY customer ORDER BY at) AS before FROM orders;
SELECT count(DISTINCT customer) AS n, sum(DISTINCT qty) AS q FROM orders [UNBOUNDED];
SELECT id, position('a' IN city) AS p, substring(city FROM 2 FOR 3) AS s, trim(BOTH 'x' FROM city) AS t FROM trips;
SELECT id, detail::jsonb -> 'a' -> 0 AS v, detail::jsonb #>> '{a,b}' AS w FROM trips;
SELECT id, regexp_replace(city, '[aeiou]', '', 'g') AS c, city ~ '^R' AS r, city ILIKE '%o%' AS o FROM trips;
SELECT o.id, e.tag FROM trips [UNBOUNDED] o CROSS JOIN LATERAL unnest(o.tags) AS e (tag);
SELECT generate_series(1, 3) AS n;
SELECT id, age(started, TIMESTAMP '2026-01-01') AS a FROM trips;
SELECT o.id, c.name FROM orders [UNBOUNDED] AS o (id, who, what, price, n, t) LEFT JOIN customers AS c ON o.who = c.id;

-- Arroyo: tutorial and windows
SELECT count(*) AS n, company FROM trips GROUP BY tumble(interval '1 minute'), company;
SELECT hop(interval '10 seconds', interval '1 minute') AS window, count(*) AS n FROM trips GROUP BY window;
SELECT session(interval '5 minutes') AS window, visitor, count(*) AS n FROM clicks GROUP BY window, visitor;
SELECT window_start, taxi, n FROM (SELECT window_start, taxi, count(*) AS n, row_number() OVER (PARTITION BY window_start ORDER BY count(*) DESC) AS r FROM TUMBLE(trips, started, INTERVAL '1 hour') GROUP BY window_start, taxi) WHERE r <= 5;
SELECT o.id, p.paid FROM (SELECT id, window_start FROM TUMBLE(orders, 1 MINUTE)) o JOIN (SELECT order_id, paid, window_start FROM TUMBLE(payments, 1 MINUTE)) p ON o.id = p.order_id AND o.window_start = p.window_start;
SELECT id, unnest(extract_json(detail, '$.items[*]')) AS item FROM trips;
SELECT extract_json_string(detail, '$.kind') AS kind FROM trips;
SELECT json_extract(detail, '$.a.b') AS v FROM trips;
SELECT count(distinct visitor) AS n FROM clicks [RANGE 1 HOUR];
SELECT a.id, c.name FROM orders a LEFT JOIN customers c ON a.customer = c.id;
SELECT customer, array_agg(product) AS l FROM orders [UNBOUNDED] GROUP BY customer;
SELECT customer, first_value(product ORDER BY at) AS f, last_value(product ORDER BY at) AS l FROM orders [UNBOUNDED] GROUP BY customer;
SELECT approx_distinct(visitor) AS n, approx_median(visitor) AS m, corr(temperature, humidity) AS c FROM readings [RANGE 1 HOUR] JOIN clicks [RANGE 1 HOUR] ON sensor = visitor;
SELECT corr(temperature, humidity) AS c, covar_pop(temperature, humidity) AS p, regr_slope(temperature, humidity) AS s FROM readings [RANGE 1 HOUR];
SELECT nth_value(temperature, 2) OVER (PARTITION BY sensor ORDER BY at) AS second, ntile(4) OVER (PARTITION BY sensor ORDER BY temperature) AS q FROM readings [RANGE 1 HOUR];
SELECT id, date_part('hour', started) AS h, date_trunc('day', started) AS d, to_timestamp_millis(1700000000000) AS t FROM trips;
SELECT id, concat_ws('-', city, company) AS c, lpad(city, 10, '*') AS l, strpos(city, 'o') AS s, starts_with(city, 'R') AS r FROM trips;
SELECT id, struct(city, fare) AS s, make_array(1, 2, 3) AS l FROM trips;

-- ksqlDB: quickstart and how-to
SELECT * FROM trips WHERE fare > 10 EMIT CHANGES;
SELECT taxi, COUNT(*) AS n FROM trips WINDOW TUMBLING (SIZE 20 SECONDS) GROUP BY taxi EMIT CHANGES;
SELECT taxi, COUNT(*) AS n FROM trips WINDOW HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS) GROUP BY taxi EMIT CHANGES;
SELECT visitor, COUNT(*) AS n FROM clicks WINDOW SESSION (60 SECONDS) GROUP BY visitor EMIT CHANGES;
SELECT o.id, p.paid FROM orders o INNER JOIN payments p WITHIN 1 HOURS ON o.id = p.order_id EMIT CHANGES;
SELECT o.id, p.paid FROM orders o LEFT JOIN payments p WITHIN 1 HOURS GRACE PERIOD 15 MINUTES ON o.id = p.order_id EMIT CHANGES;
SELECT taxi, LATEST_BY_OFFSET(fare) AS last FROM trips [UNBOUNDED] GROUP BY taxi EMIT CHANGES;
SELECT taxi, COLLECT_LIST(fare) AS l, COLLECT_SET(city) AS s FROM trips [UNBOUNDED] GROUP BY taxi EMIT CHANGES;
SELECT taxi, TOPK(fare, 3) AS t FROM trips [UNBOUNDED] GROUP BY taxi EMIT CHANGES;
SELECT taxi, COUNT_DISTINCT(city) AS n FROM trips [UNBOUNDED] GROUP BY taxi EMIT CHANGES;
SELECT id, EXPLODE(tags) AS tag FROM trips EMIT CHANGES;
SELECT id, EXTRACTJSONFIELD(detail, '$.a.b') AS v FROM trips EMIT CHANGES;
SELECT id, UCASE(city) AS u, LEN(city) AS n, IFNULL(detail, '-') AS d FROM trips EMIT CHANGES;
SELECT id, FORMAT_TIMESTAMP(started, 'yyyy-MM-dd') AS d, PARSE_TIMESTAMP(detail, 'yyyy-MM-dd') AS p FROM trips EMIT CHANGES;
SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id EMIT CHANGES;
SELECT TIMESTAMPTOSTRING(UNIX_TIMESTAMP(started), 'yyyy') AS y FROM trips EMIT CHANGES;
SELECT id, tags[1] AS t, ARRAY_CONTAINS(tags, 'x') AS c, ARRAY_LENGTH(tags) AS n FROM trips EMIT CHANGES;
SELECT city, COUNT(*) AS n FROM trips [UNBOUNDED] GROUP BY city HAVING COUNT(*) > 2 EMIT CHANGES;
SELECT * FROM trips EMIT CHANGES LIMIT 5;

-- Flink: windowing and queries
SELECT window_start, window_end, SUM(fare) AS total FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(started), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;
SELECT window_start, window_end, SUM(fare) AS total FROM TABLE(CUMULATE(TABLE trips, DESCRIPTOR(started), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;
SELECT window_start, window_end, visitor, COUNT(*) AS n FROM TABLE(SESSION(TABLE clicks PARTITION BY visitor, DESCRIPTOR(at), INTERVAL '5' MINUTES)) GROUP BY visitor, window_start, window_end;
SELECT city, LISTAGG(company, ',') AS l FROM trips [UNBOUNDED] GROUP BY city;
SELECT TUMBLE_START(started, INTERVAL '1' HOUR) AS w, COUNT(*) AS n FROM trips GROUP BY TUMBLE(started, INTERVAL '1' HOUR);
SELECT o.id, rates.rate FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.at ON o.product = rates.currency;
SELECT id, tag FROM trips CROSS JOIN UNNEST(tags) AS t (tag);
SELECT id, SUM(fare) OVER w AS s, AVG(fare) OVER w AS a FROM trips WINDOW w AS (PARTITION BY taxi ORDER BY started RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW);
SELECT taxi, fare, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY taxi ORDER BY started DESC) AS n FROM trips [UNBOUNDED]) WHERE n = 1;
SELECT city, COUNT(*) AS n FROM trips [UNBOUNDED] GROUP BY CUBE (city, company);
SELECT DATE_FORMAT(started, 'yyyy-MM-dd HH:mm') AS m, TIMESTAMPDIFF(MINUTE, started, started + INTERVAL '2' HOUR) AS d, TIMESTAMPADD(DAY, 1, started) AS n FROM trips;
SELECT id, CAST(at AS DATE) AS d, FLOOR(at TO HOUR) AS h FROM orders;
SELECT JSON_VALUE(detail, '$.a') AS v, JSON_QUERY(detail, '$.l') AS q FROM trips;
SELECT id FROM orders [UNBOUNDED] WHERE customer IN (SELECT id FROM customers);
(SELECT id FROM orders [UNBOUNDED]) UNION ALL (SELECT id FROM payments [UNBOUNDED]);
