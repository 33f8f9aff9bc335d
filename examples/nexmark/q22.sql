-- Query 22: get the folders of addresses.
-- The published query counts the pieces from 0, SPLIT_PART from 1.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, bidder, price, channel,
    SPLIT_PART(url, '/', 4) AS dir1, SPLIT_PART(url, '/', 5) AS dir2, SPLIT_PART(url, '/', 6) AS dir3
FROM bid;
