SELECT LAG(x, 1, 'none') OVER (ORDER BY ts) FROM a
