SELECT a.k FROM a, b WHERE b.ts >= a.ts
