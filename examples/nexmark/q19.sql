-- Query 19: auction top 10 prices.
-- The ten highest bids of every auction. As published: without a window.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT *
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid [UNBOUNDED]
) AS ranked
WHERE rank_number <= 10;
