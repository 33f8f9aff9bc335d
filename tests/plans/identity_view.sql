SELECT b.k, v.top FROM b [RANGE 1 MINUTE], (SELECT k, MAX(x) AS top FROM a [RANGE 1 MINUTE] GROUP BY k) v
WHERE b.k = v.k
