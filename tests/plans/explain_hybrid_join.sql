SELECT a.k, dim.name FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], c [ROWS 10], dim
WHERE a.k = b.k AND b.x = c.x AND a.d < c.d AND dim.k = a.k
OPTIONS (join = 'hybrid', order = 'b, a, c')
