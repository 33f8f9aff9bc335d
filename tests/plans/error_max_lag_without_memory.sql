SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k OPTIONS (max_lag = '5 seconds')
