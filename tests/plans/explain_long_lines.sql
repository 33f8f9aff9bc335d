SELECT a.k, a.x, a.s, a.d, b.x AS the_x_of_b, b.s AS the_s_of_b, b.d AS the_d_of_b,
       CASE WHEN a.x > b.x THEN 'the first is larger' WHEN a.x = b.x THEN 'they are equal' ELSE 'smaller' END AS which
FROM a [RANGE 1 HOUR 30 MINUTES], b [PARTITION BY k, x, s ROWS 10]
WHERE a.k = b.k AND a.s = b.s AND a.d BETWEEN b.d - 1 AND b.d + 1 AND (a.x < 3 OR b.x > 3 OR a.s || b.s LIKE '%z')
