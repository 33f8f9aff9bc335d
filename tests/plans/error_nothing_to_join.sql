SELECT k FROM a WHERE k > 1 OPTIONS (join = 'hash')
