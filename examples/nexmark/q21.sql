-- Query 21: add the channel's id.
-- The id of a bid's channel: of the large ones a number of their own, else what the address tells. REGEXP_EXTRACT
-- gives an empty text where nothing matches, as in DuckDB; the published query expects NULL there.

CREATE STREAM bid WITH (path='nexmark/bid.parquet', time='ts');

SELECT auction, bidder, price, channel,
    CASE
        WHEN LOWER(channel) = 'apple' THEN '0'
        WHEN LOWER(channel) = 'google' THEN '1'
        WHEN LOWER(channel) = 'facebook' THEN '2'
        WHEN LOWER(channel) = 'baidu' THEN '3'
        ELSE NULLIF(REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2), '')
    END AS channel_id
FROM bid
WHERE NULLIF(REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2), '') IS NOT NULL
    OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu');
