-- Query 0: pass through.
-- Every bid as it is, to see what reading and writing cost.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, bidder, price, ts, extra FROM bid;
