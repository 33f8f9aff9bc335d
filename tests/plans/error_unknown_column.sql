SELECT a.k, a.kk
FROM a
