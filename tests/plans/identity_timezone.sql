SELECT z.k, EXTRACT(hour FROM z.at) AS hour FROM zoned z
WHERE z.at >= TIMESTAMPTZ '2024-05-01 12:00:00'
OPTIONS (timezone = 'Europe/Paris')
