-- Query 17: auction statistics report.
-- How many bids an auction had, and their prices, day by day. As published: without a window.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, DATE_FORMAT(ts, 'yyyy-MM-dd') AS day,
    COUNT(*) AS total_bids,
    COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
    COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
    MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price) AS sum_price
FROM bid [UNBOUNDED]
GROUP BY auction, DATE_FORMAT(ts, 'yyyy-MM-dd');
