SELECT a.x, c.x FROM a, b, c WHERE a.k = b.k AND b.s = c.s
DWINDOW (a, b) = 5 MINUTES AND WINDOW (b, c) = 10 SECONDS
