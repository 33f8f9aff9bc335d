SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k GROUP BY a.k OPTIONS (memory = '1000 rows')
