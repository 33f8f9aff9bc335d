-- What a shop's dashboard shows, right at every instant: how much was ordered in the last five minutes, who looked
-- but did not order, and the pages most looked at. Run it from around examples/ with --engine local, add --final
-- to see only how it ends, or prove it with: watersmeet check examples/dashboard.sql

CREATE STREAM clicks (visitor BIGINT, page STRING, ts TIMESTAMP)
WITH (source='csv', path='examples/checkout/clicks.csv', time='ts', lateness='30 seconds');

CREATE STREAM orders (id BIGINT, visitor BIGINT, amount DECIMAL(8, 2), ts TIMESTAMP)
WITH (source='csv', path='examples/checkout/orders.csv', time='ts');

SELECT COUNT(*) AS orders, SUM(amount) AS amount FROM orders [RANGE 5 MINUTES];

SELECT visitor FROM clicks [RANGE 5 MINUTES] EXCEPT SELECT visitor FROM orders [RANGE 10 MINUTES];

SELECT page, COUNT(*) AS looks FROM clicks [RANGE 10 MINUTES] GROUP BY page ORDER BY looks DESC LIMIT 2
