SELECT * FROM a UNPIVOT (v FOR name IN (x, k))
