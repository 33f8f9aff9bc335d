-- Query 104, of RisingWave: auctions that do not have fewer than twenty bids.
-- As published: without a window. Auctions without a bid are among them.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT a.id AS auction_id, a.item_name AS auction_item_name
FROM auction [UNBOUNDED] a
WHERE a.id NOT IN (SELECT b.auction FROM bid [UNBOUNDED] b GROUP BY b.auction HAVING COUNT(*) < 20);
