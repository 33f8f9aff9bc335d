-- What the golden files of this folder are bound against.
CREATE STREAM a (k BIGINT, x INT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM b (k BIGINT, x INT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM c (k BIGINT, x INT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM zoned (k BIGINT, at TIMESTAMPTZ) WITH (time = 'at');
CREATE STREAM epochs (k BIGINT, ms BIGINT) WITH (time = 'ms', time_unit = 'ms', on_null = 'skip');
CREATE STREAM arriving (k BIGINT, x INT) WITH (time = 'arrival');
CREATE TABLE dim (k BIGINT, name STRING, since DATE) WITH (path = 'dim.parquet');
CREATE TABLE rates (k BIGINT, x INT, op STRING, ts TIMESTAMP) WITH (time = 'ts', key = 'k', op = 'op');
