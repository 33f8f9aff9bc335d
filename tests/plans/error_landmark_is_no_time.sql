SELECT k, COUNT(*) AS n FROM a [LANDMARK 'new year'] GROUP BY k
