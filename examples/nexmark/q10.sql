-- Query 10: log to the file system.
-- All bids in files, in a folder for each day and, in it, for each minute.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

CREATE SINK log WITH (sink='csv', path='nexmark/log', mode='overwrite', partition_by='dt, hm') AS
SELECT auction, bidder, price, ts, extra, DATE_FORMAT(ts, 'yyyy-MM-dd') AS dt, DATE_FORMAT(ts, 'HH:mm') AS hm
FROM bid;
