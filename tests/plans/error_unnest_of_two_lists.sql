SELECT UNNEST(SPLIT(s, ' ')) AS word, UNNEST([x, 1]) AS number FROM a
