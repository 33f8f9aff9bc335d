SELECT kx FROM a [NOW], b [NOW]
