SELECT a.k FROM a, b WHERE a.ts - b.ts < 5 WINDOW = 5 SECONDS
