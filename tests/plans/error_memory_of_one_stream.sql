SELECT a.k FROM a OPTIONS (memory = '1000 rows')
