"""Expressions inside of expressions, in the select list, in WHERE and as keys of groups: without more parentheses than
they need, so that who binds tighter matters."""

from __future__ import annotations

import random

from tests.outsiders.changing import single
from tests.outsiders.data import Streams
from tests.outsiders.pairs import Case, case, say
from tests.outsiders.windows import source

NUMBERS = ("k", "LENGTH(s)", "1", "3", "CAST(NULL AS BIGINT)", "l[1]", "HOUR(ts)")
TEXTS = ("s", "'a'", "''", "'b a'", "CAST(k AS VARCHAR)", "CAST(NULL AS VARCHAR)", "UPPER(s)")
CONDITIONS = ("k > 1", "s = 'a'", "k IS NULL", "s LIKE 'a%'", "x > 0", "f < 1", "d > 1", "g > 0", "k = x")
OF_NUMBERS = (
    "({n} + {n})", "({n} - {n})", "({n} * {n})", "({n} % {n})", "({n} // {n})", "(-{n})", "COALESCE({n}, {n})",
    "CASE WHEN {c} THEN {n} ELSE {n} END", "CASE {n} WHEN {n} THEN {n} END", "GREATEST({n}, {n})", "LEAST({n}, {n})",
    "NULLIF({n}, {n})", "ABS({n})", "STRPOS({t}, {t})", "LENGTH({t})", "CAST({c} AS BIGINT)", "SIGN({n})",
)  # fmt: skip
OF_TEXTS = (
    "({t} || {t})", "COALESCE({t}, {t})", "CASE WHEN {c} THEN {t} ELSE {t} END", "REPLACE({t}, 'a', 'x')",
    "SUBSTRING({t}, 2, 2)", "LOWER({t})", "TRIM({t})", "CAST({n} AS VARCHAR)", "LEFT({t}, 2)", "REVERSE({t})",
    "NULLIF({t}, {t})", "LPAD({t}, 3, '*')", "SPLIT_PART({t}, ' ', 1)", "GREATEST({t}, {t})",
)  # fmt: skip
OF_CONDITIONS = (
    "({c} AND {c})", "({c} OR {c})", "{c} IS TRUE", "{c} IS NOT FALSE", "NOT {c}", "{n} < {n}", "{n} = {n} IS NULL",
    "{n} <> {n} IS NOT TRUE", "{t} < {t}", "{t} = {t}", "{n} IS NULL", "{n} IN ({n}, {n})", "{n} NOT IN ({n}, 2)",
    "{n} BETWEEN {n} AND {n}", "{n} IS DISTINCT FROM {n}", "CONTAINS({t}, {t})", "NOT {n} = {n}",
)  # fmt: skip
FORMS = {"n": (NUMBERS, OF_NUMBERS), "t": (TEXTS, OF_TEXTS), "c": (CONDITIONS, OF_CONDITIONS)}


def draw_expression(draw: random.Random, kind: str, depth: int) -> str:
    leaves, forms = FORMS[kind]
    if depth == 0:
        return draw.choice(leaves)
    parts = draw.choice(forms).split("{")
    text = parts[0]
    for part in parts[1:]:
        inner = draw_expression(draw, part[0], depth - 1)
        # A condition inside of another is its own; only what is asked of a comparison goes without.
        text += (f"({inner})" if part[0] == "c" else inner) + part[2:]
    return text


def draw_selected(draw: random.Random, streams: Streams) -> Case:
    chosen = draw_expression(draw, draw.choice("ntc"), draw.randint(1, 3))
    condition = draw_expression(draw, "c", draw.randint(0, 2))
    u = source(draw.choice("abc"), None, "u", "")
    return case("growing", say("SELECT {e} AS c0, k AS c1 FROM {u} WHERE {c}", e=chosen, u=u, c=condition))


def draw_grouped(draw: random.Random, streams: Streams) -> Case:
    key = draw_expression(draw, draw.choice("ntc"), draw.randint(1, 2))
    text = say(
        "SELECT {e} AS c0, COUNT(*) AS c1 FROM {u} GROUP BY {e}", e=f"COALESCE({key}, NULL)", u=single(draw, streams)
    )
    return case("changing", text)


FAMILY = (draw_selected, draw_selected, draw_selected, draw_grouped)
