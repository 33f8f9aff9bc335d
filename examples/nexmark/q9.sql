-- Query 9: winning bids.
-- The winning bid of every auction. As published: without a window.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.ts, a.expires, a.seller, a.category, a.extra,
    b.auction, b.bidder, b.price, b.ts AS bid_ts, b.extra AS bid_extra
FROM auction [UNBOUNDED] AS a, bid [UNBOUNDED] AS b
WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts ASC) <= 1;
