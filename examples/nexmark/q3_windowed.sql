-- Query 3 with a window: local item suggestion.
-- Who sells in OR, ID or CA in category 10, within ten seconds of their first visit?

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM person WITH (path='nexmark/person.parquet', time='ts');

SELECT p.name, p.city, p.state, a.id
FROM auction AS a INNER JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')
WINDOW = 10 SECONDS;
