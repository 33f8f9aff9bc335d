-- Query 12: processing time windows.
-- How many bids does a user make within ten seconds by the clock on the wall?

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='arrival');

SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(arrival), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
