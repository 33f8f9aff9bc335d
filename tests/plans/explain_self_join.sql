SELECT one.k, one.x, two.x AS later FROM a AS one, a AS two WHERE one.k = two.k DWINDOW (one, two) = 1 HOUR
