-- Query 201, of ours: bids so far.
-- How many bids there have been in the current minute, every ten seconds.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT channel, window_start, window_end, COUNT(*) AS num, MAX(price) AS highest
FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE))
GROUP BY channel, window_start, window_end;
