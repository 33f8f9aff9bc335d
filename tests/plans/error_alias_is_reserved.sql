SELECT k AS order FROM a
