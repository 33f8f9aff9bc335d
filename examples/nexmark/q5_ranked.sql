-- Query 5: hot items, by rank, as RisingWave rewrites it.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT b.auction, b.num
FROM (
    SELECT auction, num, RANK() OVER (PARTITION BY starttime ORDER BY num DESC) AS rank_number
    FROM (
        SELECT auction, COUNT(*) AS num, window_start AS starttime
        FROM HOP(bid, ts, INTERVAL '2' SECOND, INTERVAL '10' SECOND)
        GROUP BY window_start, auction
    )
) AS b
WHERE b.rank_number = 1;
