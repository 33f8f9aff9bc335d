"""A query for every clause of the language in which a column may stand: `{v}` and `{w}` are columns of the type that is
tried, or of their ranks; output columns that hold such values are called `out`, `out_2`, ….

`NESTED` are the queries that take lists, structs and maps too.
"""

from __future__ import annotations

HOUR = "[RANGE 1 HOUR]"
JOINED = "WINDOW = 1 HOUR"
BEFORE = "b.ts <= a.ts AND b.ts >= a.ts - INTERVAL 1 HOUR"

NESTED: dict[str, str] = {
    "select": "SELECT id, {v} AS out FROM a",
    "is null": "SELECT id FROM a WHERE {v} IS NULL",
    "case": "SELECT id, CASE WHEN id > 2 THEN {v} ELSE {w} END AS out FROM a",
    "coalesce": "SELECT id, COALESCE({v}, {w}) AS out FROM a",
    "count": f"SELECT COUNT({{v}}) AS n FROM a {HOUR}",
    "carried by a join": f"SELECT a.id, b.id AS other, a.{{v}} AS out FROM a, b WHERE a.id = b.id {JOINED}",
    "carried by an outer join": f"SELECT a.id, b.{{v}} AS out FROM a LEFT JOIN b ON a.id = b.id {JOINED}",
    "carried by asof": f"SELECT a.id, b.{{v}} AS out FROM a ASOF LEFT JOIN b ON {BEFORE}",
    "carried by a table": "SELECT a.id, t.{v} AS out FROM a LEFT JOIN t ON a.id = t.id",
    "carried by a window": "SELECT id, {v} AS out FROM a [ROWS 2]",
    "gap": "SELECT id, {v} AS out FROM GAP_FILL(a, ts, 400 MILLISECONDS, LOCF({v}))",
    "value of over": "SELECT id, LAG({v}) OVER (ORDER BY ts) AS out FROM a",
    "less": "SELECT id FROM a WHERE {v} < {w}",
    "equal": "SELECT id FROM a WHERE {v} = {w}",
    "distinct from": "SELECT id FROM a WHERE {v} IS DISTINCT FROM {w}",
    "in": "SELECT id FROM a WHERE {v} IN ({w}, {v})",
    "between": "SELECT id FROM a WHERE {v} BETWEEN {w} AND {v}",
    "simple case": "SELECT id, CASE {v} WHEN {w} THEN 1 ELSE 0 END AS x FROM a",
    "nullif": "SELECT id, NULLIF({v}, {w}) AS out FROM a",
    "group by": f"SELECT COUNT(*) AS n, MAX(id) AS i FROM a {HOUR} GROUP BY {{v}}",
    "key of a group": f"SELECT {{v}} AS out, COUNT(*) AS n FROM a {HOUR} GROUP BY {{v}}",
    "rollup": f"SELECT COUNT(*) AS n, MAX(id) AS i FROM a {HOUR} GROUP BY ROLLUP({{v}}, {{w}})",
    "tumble": "SELECT {v} AS out, COUNT(*) AS n FROM TUMBLE(a, 2 SECONDS) GROUP BY {v}, window_start, window_end",
    "rstream": f"SELECT RSTREAM {{v}} AS out, COUNT(*) AS n FROM a {HOUR} GROUP BY {{v}} EVERY 2 SECONDS",
    "distinct": f"SELECT DISTINCT {{v}} AS out FROM a {HOUR}",
    "count distinct": f"SELECT COUNT(DISTINCT {{v}}) AS n FROM a {HOUR}",
    "min and max": f"SELECT MIN({{v}}) AS out, MAX({{v}}) AS out_2 FROM a {HOUR}",
    "first and last": f"SELECT FIRST({{v}}) AS out, LAST({{v}}) AS out_2 FROM a {HOUR}",
    "mode": f"SELECT MODE({{v}}) AS out FROM a {HOUR}",
    "arg max": f"SELECT ARG_MAX({{v}}, id) AS out FROM a {HOUR}",
    "join": f"SELECT a.id, b.id AS other FROM a, b WHERE a.{{v}} = b.{{v}} {JOINED}",
    "join using": f"SELECT {{v}} AS out, a.id, b.id AS other FROM a JOIN b USING ({{v}}) {JOINED}",
    "outer join": f"SELECT a.id, b.id AS other, b.{{v}} AS out FROM a LEFT JOIN b ON a.{{v}} = b.{{v}} {JOINED}",
    "theta join": f"SELECT a.id, b.id AS other FROM a, b WHERE a.{{v}} < b.{{v}} {JOINED}",
    "unequal join": f"SELECT a.id, b.id AS other FROM a, b WHERE a.{{v}} <> b.{{v}} {JOINED}",
    "join of windows": f"SELECT a.id, b.id AS other FROM a {HOUR} LEFT JOIN b {HOUR} ON a.{{v}} = b.{{v}}",
    "carried by a group": f"SELECT a.id AS i, a.{{v}} AS out, COUNT(*) AS n FROM a {HOUR}, b {HOUR} "
                          f"GROUP BY a.id, a.{{v}}",
    "table": "SELECT a.id, t.id AS other FROM a, t WHERE a.{v} = t.{v}",
    "outer join with a table": "SELECT a.id, t.id AS other, t.{v} AS out FROM a LEFT JOIN t ON a.{v} = t.{v}",
    "asof": f"SELECT a.id, b.id AS other FROM a ASOF LEFT JOIN b ON a.{{v}} = b.{{v}} AND {BEFORE}",
    "order by": f"SELECT id, {{v}} AS out FROM a {HOUR} ORDER BY {{v}} DESC, id LIMIT 3",
    "nulls first": f"SELECT id, {{v}} AS out FROM a {HOUR} ORDER BY {{v}} NULLS FIRST, id LIMIT 3",
    "union": f"SELECT {{v}} AS out FROM a {HOUR} UNION SELECT {{v}} FROM b {HOUR}",
    "union all": f"SELECT {{v}} AS out FROM a {HOUR} UNION ALL SELECT {{v}} FROM b {HOUR}",
    "except": f"SELECT {{v}} AS out FROM a {HOUR} EXCEPT SELECT {{v}} FROM b {HOUR}",
    "intersect": f"SELECT {{v}} AS out FROM a {HOUR} INTERSECT SELECT {{v}} FROM b {HOUR}",
    "partition by of over": "SELECT id, COUNT(*) OVER (PARTITION BY {v} ORDER BY ts ROWS 9 PRECEDING) AS n FROM a",
    "max of over": "SELECT id, MAX({v}) OVER (ORDER BY ts ROWS 2 PRECEDING) AS out FROM a",
    "order by of over": f"SELECT id, RANK() OVER (ORDER BY {{v}}) AS n FROM a {HOUR}",
    "exists": f"SELECT id FROM a {HOUR} WHERE EXISTS (SELECT 1 FROM b {HOUR} WHERE b.{{v}} = a.{{v}})",
    "in a query": f"SELECT id FROM a {HOUR} WHERE {{v}} IN (SELECT {{v}} FROM b {HOUR})",
    "not in a query": f"SELECT id FROM a {HOUR} WHERE {{v}} NOT IN "
                      f"(SELECT {{v}} FROM b {HOUR} WHERE {{v}} IS NOT NULL)",
    "value of a query": f"SELECT id FROM a {HOUR} WHERE {{v}} = (SELECT MAX({{v}}) FROM b {HOUR})",
}  # fmt: skip

PLAIN: dict[str, str] = {
    "greatest": "SELECT id, GREATEST({v}, {w}) AS out, LEAST({v}, {w}) AS out_2 FROM a",
    "gaps of a key": "SELECT id, {v} AS out FROM GAP_FILL(a, ts, 400 MILLISECONDS PARTITION BY {v})",
    "session": "SELECT COUNT(*) AS n, MAX(id) AS i FROM SESSION(a, 2 SECONDS PARTITION BY {v}) "
               "GROUP BY {v}, window_start, window_end",
    "partition by rows": "SELECT id, COUNT(*) AS n FROM a [PARTITION BY {v} ROWS 1] GROUP BY id",
    "deduplicate": "SELECT o.id FROM DEDUPLICATE(a, 1 HOUR PARTITION BY {v}) AS o",
    "versions": "SELECT a.id, n.id AS other FROM a LEFT JOIN n FOR SYSTEM_TIME AS OF a.ts ON a.{v} = n.{v}",
}  # fmt: skip
