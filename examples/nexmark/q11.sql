-- Query 11: user sessions.
-- How many bids did a user make in each session, which ends after ten seconds without one?

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM SESSION(bid, 10 SECONDS PARTITION BY bidder)
GROUP BY bidder, window_start, window_end;
