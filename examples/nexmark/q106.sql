-- Query 106, of RisingWave: the lowest of the winning bids.
-- As published: without a window.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT MIN(final) AS min_final
FROM (
    SELECT auction.id, MAX(price) AS final
    FROM auction [UNBOUNDED], bid [UNBOUNDED]
    WHERE bid.auction = auction.id AND bid.ts BETWEEN auction.ts AND auction.expires
    GROUP BY auction.id
);
