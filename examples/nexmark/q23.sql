-- Query 23: expand bids with people and auctions.
-- Bids of people who also sell, with the person and each of their auctions: a join of three streams on one key.
-- As published: without a window.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');
CREATE STREAM person WITH (path='nexmark/person.parquet', time='ts');
CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');

SELECT b.bidder, b.price, b.channel, b.url, b.extra AS bid_extra,
    p.id AS person_id, p.name, p.email_address, p.credit_card, p.city, p.state, p.extra AS person_extra,
    a.item_name, a.description, a.initial_bid, a.reserve, a.ts AS auction_ts, a.expires, a.seller, a.category,
    a.extra AS auction_extra
FROM bid [UNBOUNDED] AS b
JOIN person [UNBOUNDED] AS p ON p.id = b.bidder
JOIN auction [UNBOUNDED] AS a ON a.seller = b.bidder;
