SELECT word, COUNT(*) AS n FROM a [ROWS 10] CROSS JOIN UNNEST(SPLIT(a.s, ' ')) AS t (word) ASOF JOIN b ON b.s = word AND b.ts <= a.ts GROUP BY word
