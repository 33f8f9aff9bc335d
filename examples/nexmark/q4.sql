-- Query 4: average price for a category.
-- The average of the winning prices of all auctions, by category. As published: without a window, so every bid that
-- may win is kept.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT q.category, AVG(q.final) AS average
FROM (
    SELECT MAX(b.price) AS final, a.category
    FROM auction [UNBOUNDED] AS a, bid [UNBOUNDED] AS b
    WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
    GROUP BY a.id, a.category
) AS q
GROUP BY q.category;
