SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 1 MINUTE OPTIONS (order = 'a, c')
