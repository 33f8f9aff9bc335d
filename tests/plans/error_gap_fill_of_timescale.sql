SELECT * FROM (SELECT time_bucket_gapfill(INTERVAL 1 MINUTE, ts) AS t, k, locf(AVG(x)) AS x FROM a [RANGE 1 HOUR] GROUP BY t, k) AS g
