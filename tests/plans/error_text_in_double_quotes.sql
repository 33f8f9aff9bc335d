SELECT k FROM a WHERE k = "one"
