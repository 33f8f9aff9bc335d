"""Every aggregate of the documentation, and DuckDB's words for it."""

from __future__ import annotations

import random

from tests.outsiders.pairs import Pair

SAME = (
    "COUNT(*)",
    "COUNT({p}x)",
    "COUNT(DISTINCT {p}s)",
    "COUNT(DISTINCT {p}g)",
    "COUNT(DISTINCT {p}d)",
    "SUM({p}x)",
    "SUM({p}d)",
    "SUM({p}f)",
    "SUM(DISTINCT {p}x)",
    "AVG({p}x)",
    "AVG({p}d)",
    "AVG({p}f)",
    "AVG(DISTINCT {p}x)",
    "MIN({p}x)",
    "MAX({p}x)",
    "MIN({p}y)",
    "MAX({p}y)",
    "MIN({p}g)",
    "MAX({p}g)",
    "MIN({p}d)",
    "MAX({p}d)",
    "MIN({p}s)",
    "MAX({p}s)",
    "MIN({p}ts)",
    "MAX({p}ts)",
    "MEDIAN({p}x)",
    "MEDIAN({p}f)",
    "QUANTILE_CONT({p}x, 0.25)",
    "STDDEV({p}x)",
    "STDDEV_POP({p}x)",
    "VARIANCE({p}x)",
    "VAR_POP({p}d)",
    "BOOL_AND({p}x > 0)",
    "BOOL_OR({p}f < 0)",
    "COUNT(*) FILTER (WHERE {p}x > 1)",
    "SUM({p}x) FILTER (WHERE {p}s <> '')",
    "MAX({p}s) FILTER (WHERE {p}k IS NULL)",
    "SUM({p}x + 1) * 2",
    "SUM(CASE WHEN {p}x > 2 THEN 1 ELSE 0 END)",
    "MAX({p}x) - MIN({p}x)",
    "COALESCE(SUM({p}x), -1)",
    "COUNT(DISTINCT {p}x % 3)",
    "BIT_AND({p}x)",
    "BIT_XOR({p}x)",
    "QUANTILE_DISC({p}s, 0.3)",
    "PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY {p}x DESC)",
    "COVAR_POP({p}x, {p}d)",
    "REGR_SXY({p}x, {p}d)",
    "REGR_COUNT({p}x, {p}d)",
    "SKEWNESS({p}x)",
    "KURTOSIS({p}x)",
    "ENTROPY({p}s)",
)
OTHER = (
    ("COUNT_IF({p}x > 1)", "COUNT(*) FILTER (WHERE {p}x > 1)"),
    ("APPROX_COUNT_DISTINCT({p}y)", "COUNT(DISTINCT {p}y)"),
    ("PERCENTILE({p}f, 0.9)", "QUANTILE_CONT({p}f, 0.9)"),
    ("PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY {p}x)", "QUANTILE_CONT({p}x, 0.1)"),
    ("MEDIAN({p}d)", "MEDIAN(CAST({p}d AS DOUBLE))"),
    ("EVERY({p}x < 4)", "BOOL_AND({p}x < 4)"),
    ("MEAN({p}x)", "AVG({p}x)"),
)
BY_TIME = (
    ("FIRST({p}x)", "FIRST({p}x ORDER BY {order}) FILTER (WHERE {p}x IS NOT NULL)"),
    ("LAST({p}s)", "LAST({p}s ORDER BY {order}) FILTER (WHERE {p}s IS NOT NULL)"),
    ("LAST({p}d)", "LAST({p}d ORDER BY {order}) FILTER (WHERE {p}d IS NOT NULL)"),
    ("STRING_AGG({p}s)", "STRING_AGG({p}s, ',' ORDER BY {order})"),
    ("STRING_AGG({p}s, '-')", "STRING_AGG({p}s, '-' ORDER BY {order})"),
    ("STRING_AGG(CAST({p}x AS VARCHAR), '')", "STRING_AGG(CAST({p}x AS VARCHAR), '' ORDER BY {order})"),
    ("STRING_AGG(DISTINCT {p}s, '|')", "STRING_AGG(DISTINCT {p}s, '|' ORDER BY {p}s)"),
    ("MODE({p}x)", "first_mode(LIST({p}x ORDER BY {order}) FILTER (WHERE {p}x IS NOT NULL))"),
    ("MODE({p}s)", "first_mode(LIST({p}s ORDER BY {order}) FILTER (WHERE {p}s IS NOT NULL))"),
    (
        "ARG_MAX({p}s, {p}x)",
        "FIRST({p}s ORDER BY {p}x DESC, {order}) FILTER (WHERE {p}s IS NOT NULL AND {p}x IS NOT NULL)",
    ),
    ("MIN_BY({p}x, {p}f)", "FIRST({p}x ORDER BY {p}f, {order}) FILTER (WHERE {p}x IS NOT NULL AND {p}f IS NOT NULL)"),
    (
        "MAX_BY({p}k, {p}d)",
        "FIRST({p}k ORDER BY {p}d DESC, {order}) FILTER (WHERE {p}k IS NOT NULL AND {p}d IS NOT NULL)",
    ),
    ("STRING_AGG({p}s, '-' ORDER BY {p}x DESC)", "STRING_AGG({p}s, '-' ORDER BY {p}x DESC NULLS LAST, {order})"),
    ("FIRST({p}s ORDER BY {p}f)", "FIRST({p}s ORDER BY {p}f NULLS LAST, {order}) FILTER (WHERE {p}s IS NOT NULL)"),
    ("LENGTH(ARRAY_AGG({p}x))", "LEN(LIST({p}x))"),
    ("LIST({p}s ORDER BY {p}x)[1]", "LIST({p}s ORDER BY {p}x NULLS LAST, {order})[1]"),
    # Of NULLs alone it is a list of one, and so an empty text.
    (
        "ARRAY_TO_STRING(ARRAY_AGG(DISTINCT {p}s), '')",
        "CASE WHEN COUNT(*) > 0 THEN COALESCE(STRING_AGG(DISTINCT {p}s, '' ORDER BY {p}s), '') END",
    ),
    ("spread({p}x)", "MAX({p}x) - MIN({p}x)"),
    ("in_order({p}x)", "STRING_AGG(CAST({p}x AS VARCHAR) || ';', '' ORDER BY {order})"),
)


def draw_aggregate(draw: random.Random, alias: str, order: str | None) -> Pair:
    """One over the columns of `alias`; those that go by time only where there is an order."""
    prefix = f"{alias}." if alias else ""
    choice = draw.random()
    if order is not None and choice < 0.4:
        ours, theirs = draw.choice(BY_TIME)
    elif choice < 0.5:
        ours, theirs = draw.choice(OTHER)
    else:
        ours = theirs = draw.choice(SAME)
    return Pair(ours.format(p=prefix), theirs.format(p=prefix, order=order))


def draw_aggregates(draw: random.Random, aliases: list[str], order: str | None) -> list[Pair]:
    return [draw_aggregate(draw, draw.choice(aliases), order) for _ in range(draw.randint(1, 3))]


def named(pairs: list[Pair], first: int = 0) -> list[Pair]:
    """Columns c0, c1, …"""
    return [
        Pair(f"{pair.ours} AS c{i}", f"{pair.theirs} AS c{i}", pair.relations) for i, pair in enumerate(pairs, first)
    ]
