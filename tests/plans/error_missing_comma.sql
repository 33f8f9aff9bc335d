SELECT k x k FROM a
