-- Query 14: calculation.
-- Bids of some prices, with the time of day that they were made at and how often the letter c is in a text.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, bidder, 0.908 * price AS price,
    CASE
        WHEN HOUR(ts) >= 8 AND HOUR(ts) <= 18 THEN 'dayTime'
        WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'nightTime'
        ELSE 'otherTime'
    END AS bid_time_type,
    ts, extra, REGEXP_COUNT(extra, 'c') AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
