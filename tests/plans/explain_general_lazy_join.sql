SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND a.x < c.x WINDOW = 1 MINUTE
OPTIONS (join = 'nested_loop', refresh = '10 seconds', order = 'a: a,b,c; b: a,b,c; c: b,a,c')
