WITH sub AS changelog FROM v SELECT * FROM sub
