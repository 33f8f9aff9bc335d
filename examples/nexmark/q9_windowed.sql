-- Query 9 with windows: winning bids.
-- The winning bids among the auctions and bids of the last five seconds.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.ts, a.expires, a.seller, a.category, a.extra,
    b.auction, b.bidder, b.price, b.ts AS bid_ts, b.extra AS bid_extra
FROM auction [RANGE 5 SECONDS] AS a, bid [RANGE 5 SECONDS] AS b
WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts ASC) <= 1;
