SELECT k AS 'key' FROM a
