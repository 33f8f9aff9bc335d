"""Clauses in odd company: each text is one query in both languages, over windows of any form."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.outsiders.changing import single
from tests.outsiders.data import Streams
from tests.outsiders.pairs import Case, case, say

CHANGING = (
    "SELECT u.k AS c0, SUM(u.x) AS c1 FROM {u} GROUP BY 1 HAVING SUM(u.x) IS NOT NULL",
    "SELECT x % 2 AS c0, k AS c1, COUNT(*) AS c2 FROM {u} GROUP BY x % 2, k",
    "SELECT COUNT(*) AS c0 FROM {u} GROUP BY k",
    "SELECT k AS c0, MAX(x) - MIN(x) AS c1, COUNT(*) * 2 + COUNT(x) AS c2 FROM {u} GROUP BY k HAVING MAX(x) > MIN(x)",
    "SELECT DISTINCT COUNT(*) AS c0 FROM {u} GROUP BY k",
    "SELECT DISTINCT k AS c0, COUNT(*) > 1 AS c1 FROM {u} GROUP BY k, s",
    "SELECT k AS c0, COUNT(*) AS c1 FROM {u} GROUP BY k ORDER BY c1 DESC, c0 NULLS LAST LIMIT 2",
    "SELECT k AS c0, SUM(x) AS c1 FROM {u} GROUP BY k ORDER BY SUM(x) NULLS FIRST, k NULLS LAST LIMIT 1",
    "SELECT k AS c0 FROM {u} UNION ALL SELECT CAST(x AS BIGINT) AS c0 FROM {v} UNION ALL SELECT k AS c0 FROM {w}",
    "SELECT k AS c0, COUNT(*) AS c1 FROM {u} GROUP BY k UNION SELECT k AS c0, COUNT(*) AS c1 FROM {v} GROUP BY k",
    "SELECT k AS c0, COUNT(*) AS c1 FROM {u} GROUP BY k EXCEPT ALL SELECT k AS c0, CAST(x AS BIGINT) AS c1 FROM {v}",
    "SELECT u.k AS c0 FROM {u} INTERSECT SELECT v.k AS c0 FROM {v} WHERE v.x > 0",
    "SELECT q.k AS c0, r.n AS c1 FROM (SELECT k, COUNT(*) AS n FROM {u} GROUP BY k) AS q"
    " JOIN (SELECT k, MAX(x) AS n FROM {v} GROUP BY k) AS r ON q.k = r.k",
    "SELECT q.k AS c0, q.n AS c1, r.n AS c2 FROM (SELECT k, COUNT(*) AS n FROM {u} GROUP BY k) AS q"
    " FULL JOIN (SELECT k, MAX(x) AS n FROM {v} GROUP BY k) AS r ON q.k = r.k",
    "WITH q AS (SELECT k, COUNT(*) AS n FROM {u} GROUP BY k) SELECT p.k AS c0, r.k AS c1 FROM q AS p, q AS r"
    " WHERE p.n = r.n AND p.k < r.k",
    "WITH q (a, b) AS (SELECT k, SUM(x) FROM {u} GROUP BY k), r AS (SELECT a FROM q WHERE b > 0)"
    " SELECT a AS c0, COUNT(*) AS c1 FROM r GROUP BY a",
    "SELECT u.k AS c0, COUNT(DISTINCT v.x) AS c1, SUM(w.x) AS c2 FROM {u} LEFT JOIN {v} ON u.k = v.k"
    " LEFT JOIN {w} ON v.x = w.x GROUP BY u.k",
    "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u} LEFT JOIN ({v} JOIN {w} ON v.x = w.x) ON u.k = v.k GROUP BY u.k",
    "SELECT u.s AS c0, COUNT(v.k) AS c1, COUNT(*) AS c2 FROM {u} RIGHT JOIN {v} ON u.k = v.k AND u.x > 0 GROUP BY u.s",
    "SELECT u.k AS c0, v.k AS c1, COUNT(*) AS c2 FROM {u} FULL JOIN {v} ON u.x = v.x WHERE u.k IS NULL OR v.k IS NULL"
    " GROUP BY u.k, v.k",
    "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u} WHERE NOT EXISTS (SELECT 1 FROM {v} WHERE v.k = u.k AND v.x > u.x)"
    " GROUP BY u.k",
    "SELECT DISTINCT u.k AS c0, u.x AS c1 FROM {u} WHERE u.x NOT IN (SELECT v.x FROM {v} WHERE v.k = u.k)",
    "SELECT DISTINCT u.k AS c0 FROM {u} WHERE u.x IN (SELECT v.x FROM {v}) AND u.k NOT IN (SELECT w.k FROM {w})",
    "SELECT u.k AS c0, u.x + COALESCE((SELECT MAX(v.x) FROM {v} WHERE v.k = u.k), 0) AS c1 FROM {u}",
    "SELECT u.k AS c0, CASE WHEN u.x > (SELECT AVG(v.x) FROM {v}) THEN 'more' ELSE 'less' END AS c1 FROM {u}",
    "SELECT u.k AS c0, (SELECT COUNT(*) FROM {v} WHERE v.k = u.k AND v.s = u.s) AS c1,"
    " (SELECT SUM(w.x) FROM {w}) AS c2 FROM {u}",
    "SELECT u.k AS c0, u.k IN (SELECT v.k FROM {v}) AS c1, u.x NOT IN (SELECT v.x FROM {v} WHERE v.k = u.k) AS c2"
    " FROM {u}",
    "SELECT DISTINCT u.k AS c0 FROM {u} WHERE u.x > 2 OR u.k NOT IN (SELECT v.k FROM {v} WHERE v.x > 0)",
    "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u} WHERE NOT (u.k IN (SELECT v.k FROM {v}) OR u.x > 3) GROUP BY u.k",
    "SELECT u.k AS c0, EXISTS (SELECT 1 FROM {v} WHERE v.k = u.k AND v.x > 0) AS c1 FROM {u}",
    "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u} GROUP BY u.k HAVING EXISTS (SELECT 1 FROM {v} WHERE v.k = u.k)",
    "SELECT u.k AS c0, SUM(u.x) AS c1 FROM {u} GROUP BY u.k HAVING SUM(u.x) > (SELECT AVG(v.x) FROM {v})",
    "SELECT q.c AS c0, COUNT(*) AS c1 FROM (SELECT u.x - (SELECT MIN(v.x) FROM {v} WHERE v.k = u.k) AS c FROM {u}) AS q"
    " GROUP BY q.c",
    "SELECT m.name AS c0, COUNT(*) AS c1, SUM(u.x) AS c2 FROM {u} JOIN names AS m ON u.k = m.k GROUP BY m.name",
    "SELECT m.name AS c0, COUNT(*) AS c1 FROM {u} LEFT JOIN names AS m ON u.k = m.k AND m.rate > 0 GROUP BY m.name",
    "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u} WHERE u.k IN (SELECT m.k FROM names AS m) GROUP BY u.k",
    "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u} WHERE u.k NOT IN (SELECT m.k FROM names AS m WHERE m.k IS NOT NULL)"
    " GROUP BY u.k",
    "SELECT GROUPING(u.k) AS c0, u.k AS c1, COUNT(*) AS c2 FROM {u} GROUP BY GROUPING SETS ((u.k), (u.k, u.s))",
    "SELECT u.k AS c0, v.s AS c1, COUNT(*) AS c2 FROM {u}, {v} WHERE u.k = v.k GROUP BY CUBE (u.k, v.s)"
    " HAVING COUNT(*) > 0",
    "SELECT q.k AS c0, q.p AS c1 FROM (SELECT k, x, RANK() OVER (PARTITION BY k ORDER BY x DESC NULLS LAST) AS p"
    " FROM {u}) AS q WHERE q.p = 2",
    "SELECT q.p AS c0, COUNT(*) AS c1 FROM (SELECT DENSE_RANK() OVER (ORDER BY k NULLS LAST) AS p FROM {u}) AS q"
    " GROUP BY q.p",
    "SELECT k AS c0, COUNT(*) AS c1, SUM(COUNT(*)) OVER () AS c2 FROM {u} GROUP BY k",
    "SELECT DISTINCT u.k AS c0, v.x AS c1 FROM {u} SEMI JOIN {w} ON u.x = w.x, {v} WHERE u.k = v.k",
    "SELECT u.k AS c0, u.x AS c1, v.x AS c2 FROM {u}, {v} WHERE u.k = v.k ORDER BY u.x DESC NULLS LAST, v.x NULLS LAST,"
    " u.k LIMIT 3",
    "SELECT u.k AS c0, MIN(u.ts) AS c1, MAX(v.ts) AS c2, MAX(v.ts) - MIN(u.ts) AS c3 FROM {u}, {v} WHERE u.k = v.k"
    " GROUP BY u.k",
    "SELECT CASE WHEN x > 1 THEN 'a' WHEN x IS NULL THEN NULL ELSE 'b' END AS c0, COUNT(*) AS c1 FROM {u}"
    " GROUP BY CASE WHEN x > 1 THEN 'a' WHEN x IS NULL THEN NULL ELSE 'b' END",
    "SELECT g AS c0, COUNT(*) AS c1, SUM(x) AS c2 FROM {u} GROUP BY g",
    "SELECT d AS c0, f AS c1, COUNT(*) AS c2 FROM {u} GROUP BY d, f",
    "SELECT y AS c0, COUNT(*) AS c1 FROM {u} WHERE y > 0 OR y IS NULL GROUP BY y",
    "SELECT CAST(ts AS DATE) AS c0, HOUR(ts) AS c1, COUNT(*) AS c2 FROM {u} GROUP BY CAST(ts AS DATE), HOUR(ts)",
    "SELECT k AS c0, SUM(CASE WHEN s LIKE '%a%' THEN x END) AS c1, COUNT(DISTINCT CASE WHEN x > 0 THEN s END) AS c2"
    " FROM {u} GROUP BY k",
    "SELECT u.k AS c0, COUNT(*) AS c1 FROM {u}, {v} WHERE u.k = v.k AND u.x + v.x > 0 AND (u.s = v.s OR u.d < v.d)"
    " GROUP BY u.k",
    "SELECT DISTINCT u.k AS c0, v.k AS c1 FROM {u}, {v}, {w} WHERE u.x = v.x AND v.x = w.x AND u.k <> w.k",
    "SELECT DISTINCT u.x AS c0, u.k AS c1 FROM {u} LEFT JOIN {v} ON u.k = v.k WHERE v.k IS NULL",
    "SELECT LENGTH(u.l) AS c0, COUNT(*) AS c1 FROM {u} GROUP BY LENGTH(u.l)",
)


def _drawn(text: str) -> Callable[[random.Random, Streams], Case]:
    def draw_one(draw: random.Random, streams: Streams) -> Case:
        inputs = {alias: single(draw, streams, alias) for alias in "uvw" if f"{{{alias}}}" in text}
        return case("changing", say(text, **inputs))

    return draw_one


FAMILY = tuple(map(_drawn, CHANGING))
