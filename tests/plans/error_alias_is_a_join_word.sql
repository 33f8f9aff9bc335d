SELECT left.k FROM a left, b right WHERE left.k = right.k WINDOW = 5 SECONDS
