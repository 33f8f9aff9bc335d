-- Query 6 with windows: average selling price by seller.
-- The same among the auctions and bids of the last five seconds.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT q.seller,
    AVG(q.price) OVER (PARTITION BY q.seller ORDER BY q.ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
FROM (
    SELECT a.id, a.seller, b.price, b.ts
    FROM auction [RANGE 5 SECONDS] AS a, bid [RANGE 5 SECONDS] AS b
    WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
    QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC) <= 1
) AS q;
