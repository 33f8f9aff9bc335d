SELECT k FROM a [ROWS many]
