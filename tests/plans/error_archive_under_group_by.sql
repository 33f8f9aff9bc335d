SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY a.k OPTIONS (archive = 'cold')
