-- Query 202, of ours: the prices of every auction, as a list.
-- Every ten seconds, in the order of the bids.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, window_end, ARRAY_AGG(price) AS prices
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;
