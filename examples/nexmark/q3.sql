-- Query 3: local item suggestion.
-- Who sells in OR, ID or CA in category 10, and in which auctions? As published: without a window, so all people
-- and all such auctions are kept.

CREATE STREAM auction WITH (path='nexmark/auction.parquet', time='ts');
CREATE STREAM person WITH (path='nexmark/person.parquet', time='ts');

SELECT p.name, p.city, p.state, a.id
FROM auction [UNBOUNDED] AS a INNER JOIN person [UNBOUNDED] AS p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA');
