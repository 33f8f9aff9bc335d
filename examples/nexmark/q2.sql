-- Query 2: selection.
-- Bids for every 123rd auction.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;
