CREATE STREAM trips (id BIGINT, taxi BIGINT, company STRING, city STRING, started TIMESTAMP, km DOUBLE, minutes INT, fare DOUBLE, tags ARRAY<STRING>, detail STRING) WITH (path='trips.parquet', time='started');
CREATE STREAM orders (id BIGINT, customer BIGINT, product STRING, amount DECIMAL(10,2), qty INT, at TIMESTAMP) WITH (path='orders.parquet', time='at');
CREATE STREAM payments (id BIGINT, order_id BIGINT, method STRING, paid DOUBLE, at TIMESTAMP) WITH (path='payments.parquet', time='at');
CREATE STREAM clicks (visitor BIGINT, page STRING, item STRING, at TIMESTAMP) WITH (path='clicks.parquet', time='at');
CREATE STREAM readings (sensor BIGINT, temperature DOUBLE, humidity DOUBLE, at TIMESTAMP) WITH (path='readings.parquet', time='at');
CREATE STREAM quotes (symbol STRING, price DOUBLE, at TIMESTAMP) WITH (path='quotes.parquet', time='at');
CREATE TABLE customers (id BIGINT, name STRING, region STRING, born DATE) WITH (path='customers.parquet');
CREATE TABLE rates (currency STRING, rate DOUBLE, at TIMESTAMP) WITH (path='rates.parquet', time='at', key='currency');
CREATE VIEW totals AS SELECT customer, SUM(amount) AS spent, COUNT(*) AS n FROM orders [UNBOUNDED] GROUP BY customer;
