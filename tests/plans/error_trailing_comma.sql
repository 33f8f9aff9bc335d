SELECT k, x, FROM a
