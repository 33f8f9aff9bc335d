-- Query 1: currency conversion.
-- Prices of bids in euros instead of dollars.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, bidder, 0.908 * price AS price, ts, extra FROM bid;
