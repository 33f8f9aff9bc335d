-- Query 107, of RisingWave: percentiles of all prices.
-- As published: without a window. The percentiles are exact here.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT
    approx_percentile(0.01, 0.01) WITHIN GROUP (ORDER BY price) AS p01,
    approx_percentile(0.50, 0.01) WITHIN GROUP (ORDER BY price) AS p50,
    approx_percentile(0.99, 0.01) WITHIN GROUP (ORDER BY price) AS p99
FROM bid [UNBOUNDED];
