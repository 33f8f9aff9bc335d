-- Query 18: find the last bid.
-- The last bid of every bidder for every auction. As published: without a window.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, bidder, price, channel, url, ts, extra
FROM bid [UNBOUNDED]
QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) <= 1;
