-- Query 19 with a window: auction top 10 prices.
-- The ten highest bids of every auction, of the last five seconds.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT *
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid [RANGE 5 SECONDS]
) AS ranked
WHERE rank_number <= 10;
