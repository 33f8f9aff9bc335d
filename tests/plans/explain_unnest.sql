SELECT a.k, word, n FROM a CROSS JOIN UNNEST(SPLIT(a.s, ' ')) WITH ORDINALITY AS t (word, n)
