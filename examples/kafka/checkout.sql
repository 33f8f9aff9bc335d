-- Which page led to an order that was paid? The same question as in checkout.sql, of topics that go on, with the answer
-- in a topic, in a table of PostgreSQL and in one of Delta. Each has it exactly once, whatever is killed:
--
--   export SHOP_DATABASE='host=localhost dbname=shop user=shop password=…'
--   watersmeet run examples/kafka/checkout.sql --checkpoint shop-checkpoint
--
-- What is no order, or comes too late, goes into topics of its own.

CREATE SINK unreadable WITH (sink='kafka', brokers='localhost:9092', topic='unreadable');

CREATE STREAM clicks (visitor BIGINT, page STRING, ts TIMESTAMP)
WITH (source='kafka', brokers='localhost:9092', topic='clicks', format='json', time='ts',
      lateness='30 seconds', idle='1 minute', group='checkout');

CREATE STREAM orders (id BIGINT, visitor BIGINT, amount DECIMAL(10, 2), ts TIMESTAMP)
WITH (source='kafka', brokers='localhost:9092', topic='orders', format='json', time='ts',
      lateness='30 seconds', idle='1 minute', group='checkout', on_bad='sink unreadable');

CREATE STREAM payments (order_id BIGINT, method STRING, ts TIMESTAMP)
WITH (source='kafka', brokers='localhost:9092', topic='payments', format='json', time='ts',
      lateness='30 seconds', idle='1 minute', group='checkout');

CREATE VIEW paid AS
SELECT o.id, c.page, o.amount, p.method, p.ts
FROM clicks c, orders o, payments p
WHERE c.visitor = o.visitor AND o.id = p.order_id
DWINDOW (c, o) = 5 MINUTES AND DWINDOW (o, p) = 10 MINUTES;

CREATE SINK led_to WITH (sink='kafka', brokers='localhost:9092', topic='led-to', key='id') AS
SELECT * FROM paid;

CREATE SINK by_page WITH (sink='postgres', dsn='${SHOP_DATABASE}', table='paid_by_page') AS
SELECT page, COUNT(*) AS orders, SUM(amount) AS amount FROM paid [RANGE 1 HOUR] GROUP BY page;

CREATE SINK kept WITH (sink='delta', path='shop/paid') AS
SELECT * FROM paid;
