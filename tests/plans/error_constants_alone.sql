SELECT column1, COUNT(*) FROM (VALUES (1), (2)) AS t GROUP BY column1
