SELECT a.k FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k
OPTIONS (memory = '1000 rows', max_lag = '5 seconds', archive = 'cold');
