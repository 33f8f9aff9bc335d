SELECT a.k, b.k AS other FROM a [NOW], b [RANGE 2 SECONDS]
