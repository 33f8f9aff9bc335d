SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE OPTIONS (refresh = '10 seconds', expire = '5 seconds')
