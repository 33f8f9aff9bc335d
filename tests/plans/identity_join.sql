SELECT a.x, b.x AS y FROM a, b WHERE a.k = b.k AND a.x < b.x WINDOW = 1 SECOND
