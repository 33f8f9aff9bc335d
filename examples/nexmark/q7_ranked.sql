-- Query 7: highest bid, by rank, as RisingWave rewrites it.
-- The highest bids of every ten seconds; one of the last microsecond counts once here.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT b.auction, b.price, b.bidder, b.ts, b.extra
FROM (
    SELECT auction, price, bidder, ts, extra, RANK() OVER (PARTITION BY window_end ORDER BY price DESC) AS priority
    FROM TUMBLE(bid, ts, INTERVAL '10' SECOND)
) AS b
WHERE b.priority <= 1;
