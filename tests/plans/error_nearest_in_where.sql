SELECT a.k FROM a, b WHERE a.k = b.k AND NEAREST(b.ts, a.ts) WINDOW = 1 MINUTE
