-- Query 17 with a window: auction statistics report.
-- How many bids an auction had, and their prices, in the last five seconds.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, DATE_FORMAT(ts, 'yyyy-MM-dd') AS day,
    COUNT(*) AS total_bids,
    COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
    COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
    MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price) AS sum_price
FROM bid [RANGE 5 SECONDS]
GROUP BY auction, DATE_FORMAT(ts, 'yyyy-MM-dd');
