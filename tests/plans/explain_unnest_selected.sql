SELECT k, UNNEST([x, 0]) AS number FROM a AS t (k, x)
