SELECT k, x + 1 AS next, UPPER(s) AS name FROM a WHERE x > 3 AND s LIKE 'z%'
