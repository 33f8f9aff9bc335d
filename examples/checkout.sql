-- Which page led to an order that was paid? A click counts for five minutes,
-- an order waits ten minutes for its payment. Run it from the folder around examples/.

CREATE STREAM clicks (visitor BIGINT, page STRING, ts TIMESTAMP)
WITH (source='csv', path='examples/checkout/clicks.csv', time='ts', lateness='30 seconds');

CREATE STREAM orders (id BIGINT, visitor BIGINT, amount DECIMAL(10, 2), ts TIMESTAMP)
WITH (source='csv', path='examples/checkout/orders.csv', time='ts');

CREATE STREAM payments (order_id BIGINT, method STRING, ts TIMESTAMP)
WITH (source='csv', path='examples/checkout/payments.csv', time='ts');

SELECT o.id, c.page, o.amount, p.method, p.ts - o.ts AS waited
FROM clicks c, orders o, payments p
WHERE c.visitor = o.visitor AND o.id = p.order_id
DWINDOW (c, o) = 5 MINUTES AND DWINDOW (o, p) = 10 MINUTES;
