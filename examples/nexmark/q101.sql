-- Query 101, of RisingWave: auctions and their highest bids.
-- Auctions without a bid are there, too. As published: without a window.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT a.id AS auction_id, a.item_name AS auction_item_name, b.max_price AS current_highest_bid
FROM auction [UNBOUNDED] a
LEFT OUTER JOIN (SELECT b1.auction, MAX(b1.price) max_price FROM bid [UNBOUNDED] b1 GROUP BY b1.auction) b ON a.id = b.auction;
