-- Query 20: expand bids with their auctions.
-- Bids for auctions of category 10, with the auction. As published: without a window.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');
CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');

SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.ts, b.extra,
    a.item_name, a.description, a.initial_bid, a.reserve, a.ts AS auction_ts, a.expires, a.seller, a.category,
    a.extra AS auction_extra
FROM bid [UNBOUNDED] AS b INNER JOIN auction [UNBOUNDED] AS a ON b.auction = a.id
WHERE a.category = 10;
