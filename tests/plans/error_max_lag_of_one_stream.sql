SELECT a.k FROM a OPTIONS (memory = '1000 rows', max_lag = '5 seconds')
