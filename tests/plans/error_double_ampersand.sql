SELECT k FROM a WHERE k = 1 && x = 2
