SELECT a.k FROM a [UNBOUNDED], b [NOW] WHERE a.k = b.k
