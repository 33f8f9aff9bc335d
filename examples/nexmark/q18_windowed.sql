-- Query 18 with a window: find the last bid.
-- The last bid of every bidder for every auction, of the last five seconds.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, bidder, price, channel, url, ts, extra
FROM bid [RANGE 5 SECONDS]
QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) <= 1;
