-- Query 103, of RisingWave: auctions with at least twenty bids.
-- As published: without a window.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT a.id AS auction_id, a.item_name AS auction_item_name
FROM auction [UNBOUNDED] a
WHERE a.id IN (SELECT b.auction FROM bid [UNBOUNDED] b GROUP BY b.auction HAVING COUNT(*) >= 20);
