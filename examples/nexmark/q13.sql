-- Query 13: bounded side input join.
-- Bids with what a table of the side says about them.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');
CREATE TABLE side_input WITH (path='nexmark/side_input.parquet');

SELECT b.auction, b.bidder, b.price, b.ts, s.value
FROM bid AS b JOIN side_input AS s ON MOD(b.auction, 10000) = s.key;
