SELECT a.k FROM a, b WHERE a.k = b.k OR WINDOW (a, b) = 5 SECONDS
