SELECT k, SUM(x) AS total FROM a [NOW] WHERE total > 1 GROUP BY k
