CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (source = 'parquet', path = 'a.parquet', time = 'ts');
CREATE STREAM b (ts TIMESTAMP, k BIGINT) WITH (source = 'parquet', path = 'b.parquet', time = 'ts');
CREATE STREAM c (ts TIMESTAMP, k BIGINT) WITH (source = 'parquet', path = 'c.parquet', time = 'ts');

CREATE SINK pairs WITH (sink = 'parquet', path = 'pairs.parquet') AS
  SELECT a.v, b.ts AS at FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS;

SELECT k, COUNT(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k;

SELECT k FROM b;

SELECT k FROM c;

SELECT v FROM a OPTIONS (share = 'no');

CREATE SINK wider WITH (sink = 'parquet', path = 'wider.parquet') AS
  SELECT a.v, b.ts AS at FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR;

CREATE VIEW busy AS SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k;

SELECT k FROM busy WHERE n > 9;

SELECT MAX(n) AS most FROM busy;
