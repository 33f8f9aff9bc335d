SELECT k, x
