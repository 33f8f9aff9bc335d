SELECT a.k, count(*) FROM a [RANGE 5 SECONDS] GROUP BY a.k OPTIONS (max_lag = '5 seconds')
