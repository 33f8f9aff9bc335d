-- Query 4 with windows: average price for a category.
-- The same over the auctions and bids of the last five seconds.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT q.category, AVG(q.final) AS average
FROM (
    SELECT MAX(b.price) AS final, a.category
    FROM auction [RANGE 5 SECONDS] AS a, bid [RANGE 5 SECONDS] AS b
    WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
    GROUP BY a.id, a.category
) AS q
GROUP BY q.category;
