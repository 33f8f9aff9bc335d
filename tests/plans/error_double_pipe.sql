SELECT k FROM a WHERE x = 1 || x = 2
