-- Query 203, of ours: all that happens, as one stream.
-- How many events of each kind there are in every ten seconds.

CREATE STREAM person WITH (path='nexmark/person.parquet', time='ts');
CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT kind, window_end, COUNT(*) AS num
FROM TUMBLE((
    SELECT 'person' AS kind, ts FROM person
    UNION ALL SELECT 'auction' AS kind, ts FROM auction
    UNION ALL SELECT 'bid' AS kind, ts FROM bid
), 10 SECONDS)
GROUP BY kind, window_start, window_end;
