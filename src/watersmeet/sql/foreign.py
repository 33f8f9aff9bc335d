"""Words of other languages and systems, and what would do here. docs/coming_from.md has whole queries side by side."""

from __future__ import annotations

from watersmeet.sql.refused_functions import CLOCKS

_PERIODS = (
    "windows stand in FROM: FROM TUMBLE(a, 5 MINUTES), HOP(a, 1 MINUTE, 5 MINUTES) or "
    "SESSION(a, 5 MINUTES PARTITION BY k), with GROUP BY window_start, window_end"
)
_LATENESS = "how far out of order rows may come stands in CREATE STREAM … WITH (time = 'ts', lateness = '5 seconds')"
_RANGE = "a window stands in brackets after its stream: a [RANGE 5 SECONDS]"
_ROWS = "a window of the last rows stands in brackets after its stream: a [ROWS 5]"
_EMIT = (
    "an answer that changes comes as its changes; windows of TUMBLE come once, or as their changes with "
    "EMIT CHANGES; SELECT RSTREAM … EVERY 5 MINUTES gives all of an answer again and again, "
    "SELECT ISTREAM … only what is new"
)
FILE = "declare it: CREATE STREAM a WITH (path = 'a.parquet', time = 'ts'), or CREATE TABLE for rows without a time"
LAST_OF_EACH = "the last row of each k is SELECT k, LAST(x) AS x FROM a [PARTITION BY k ROWS 1] GROUP BY k"
_PIVOT = (
    "write an aggregate for each column: SELECT SUM(x) FILTER (WHERE k = 1) AS one, SUM(x) FILTER (WHERE k = 2) AS two "
    "FROM a [RANGE 1 HOUR], or SUM(CASE WHEN k = 1 THEN x END)"
)
_PATTERN = (
    "a pattern of two is a join in order: FROM a, b WHERE a.k = b.k DWINDOW (a, b) = 5 MINUTES, first a, then b; "
    "WINDOW PATH (a, b, c) = (w1, w2) of more"
)

# By name, in lower case: functions, and columns or words that stand where one could. refused_functions.py has more of
# functions alone.
FUNCTIONS = {
    **CLOCKS,
    **dict.fromkeys(("to_months", "to_quarters", "to_years"), "it is added to a time: ts + TO_MONTHS(n)"),
    **dict.fromkeys(("withwatermark", "watermark"), _LATENESS),
    "nearest": "it stands in ON of an as-of join, joined to the rest by AND: a ASOF JOIN b ON a.k = b.k AND "
    "NEAREST(b.ts, a.ts)",
    "stream": "leave STREAM out: every query over streams goes on",
    "rowtime": "the event time is the column that WITH (time = '…') of CREATE STREAM names, or EVENT_TIME()",
    "columns": "list the columns to be selected",
    "histogram": "group by the value: SELECT x, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY x",
    **dict.fromkeys(
        ("input_file_name", "monotonically_increasing_id", "spark_partition_id"),
        "an answer does not depend on where rows lie; ROW_NUMBER() OVER (ORDER BY ts) numbers them by event time",
    ),
    **dict.fromkeys(
        ("posexplode", "posexplode_outer", "explode_outer", "inline", "stack"),
        "write FROM a CROSS JOIN UNNEST(a.items) WITH ORDINALITY AS t (item, number); LEFT JOIN UNNEST(…) … ON TRUE "
        "keeps rows without entries",
    ),
    "extract_json": "write JSON_EXTRACT(j, '$.a') for one value; what makes a list of JSON is a function of your own: "
    "--functions FILE.py, session.function(…)",
    "latest_by_offset": "write LAST(x), the last by event time",
    "earliest_by_offset": "write FIRST(x), the first by event time",
    "timestamptostring": "write DATE_FORMAT(ts, 'yyyy-MM-dd') of a time",
    "stringtotimestamp": "write STRPTIME(text, '%Y-%m-%d')",
    **dict.fromkeys(("some", "any"), "write BOOL_OR(x > 1)"),
    **dict.fromkeys(
        ("tumble", "hop", "cumulate", "session", "tumbling", "hopping", "window", "session_window",
         "tumble_rowtime", "hop_rowtime", "session_rowtime", "window_start", "window_end", "window_time"),
        _PERIODS,
    ),
    **dict.fromkeys(
        ("gap_fill", "time_bucket_gapfill", "date_bin_gapfill", "locf", "interpolate"),
        "gaps are filled in FROM, over groups of windows: WITH c AS (SELECT k, window_start, COUNT(*) AS n "
        "FROM TUMBLE(a, 1 MINUTE) GROUP BY k, window_start) SELECT … "
        "FROM GAP_FILL(c, window_start, 1 MINUTE, LOCF(n) PARTITION BY k)",
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "lag", "lead"),
        "it goes with OVER, for example ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts)",
    ),
    **dict.fromkeys(
        ("dropduplicates", "drop_duplicates", "dropduplicateswithinwatermark"),
        "the first row of each k to arrive is FROM DEDUPLICATE(a, 10 MINUTES PARTITION BY k)",
    ),
    **dict.fromkeys(("read_parquet", "read_csv", "read_json", "parquet_scan", "read_csv_auto"), FILE),
    **dict.fromkeys(
        ("explode", "unnest", "flatten"), "write FROM a CROSS JOIN UNNEST(a.items) AS t (item)"
    ),
}  # fmt: skip

# The first words of clauses, in upper case.
PHRASES = {
    "EMIT": _EMIT,
    "OUTPUT": _EMIT,
    "MATCH_RECOGNIZE": _PATTERN,
    "PATTERN": _PATTERN,
    "WATERMARK": _LATENESS,
    "TABLESAMPLE": "a [ROWS 100] is the last rows; explain --analyze and check take a --sample",
    "SAMPLE": "a [ROWS 100] is the last rows; explain --analyze and check take a --sample",
    "INTO": "results go to a sink: CREATE SINK name WITH (…) AS SELECT …",
    "PREWHERE": "write WHERE",
    "ROLLUP": "it stands in GROUP BY: GROUP BY ROLLUP (a, b)",
    "CUBE": "it stands in GROUP BY: GROUP BY CUBE (a, b)",
    "RETAIN": _RANGE,
    "PIVOT": _PIVOT,
    "UNPIVOT": "write a query for each column and UNION ALL between them",
}

# After CREATE, in upper case.
CREATED = {
    **dict.fromkeys(("MATERIALIZED", "TEMPORARY", "TEMP"), "write CREATE VIEW name AS SELECT …"),
    "OR": "leave OR REPLACE out: what a script creates is gone when it ends",
    "EXTERNAL": "write CREATE TABLE name WITH (path = '…')",
    "WINDOW": _RANGE,
    "SCHEMA": "write CREATE STREAM name (k BIGINT, ts TIMESTAMP) WITH (path = '…', time = 'ts')",
}

# After a stream and # or a dot: Esper's views, Spark's methods.
AFTER_A_STREAM = {
    **dict.fromkeys(("time", "time_batch", "ext_timed", "win", "keepall"), _RANGE),
    **dict.fromkeys(("length", "length_batch", "lastevent"), _ROWS),
    **dict.fromkeys(("unique", "std", "groupwin"), LAST_OF_EACH),
    "withwatermark": _LATENESS,
    **dict.fromkeys(("filter", "where"), "write SELECT … FROM a WHERE …"),
    **dict.fromkeys(("groupby", "agg"), "write SELECT k, COUNT(*) FROM a [RANGE 1 HOUR] GROUP BY k"),
}
