-- Query 7: highest bid.
-- The highest bids of every ten seconds.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT b.auction, b.price, b.bidder, b.ts, b.extra
FROM bid AS b
JOIN (
    SELECT MAX(price) AS maxprice, window_end AS ts
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) AS b1
ON b.price = b1.maxprice
WHERE b.ts BETWEEN b1.ts - INTERVAL '10' SECOND AND b1.ts;
