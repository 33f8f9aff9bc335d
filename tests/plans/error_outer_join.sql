SELECT a.k
FROM a
LEFT JOIN b ON a.k = b.k
