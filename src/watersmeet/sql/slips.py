"""Typical slips of those who know other SQL: what is wrong, and what would do. Only texts that failed come here."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import Token, TokenType

CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "EVERY", "OPTIONS")
_CLAUSE_ORDER = f"the clauses come in this order: {', '.join(CLAUSES)}; WINDOW = … before or after WHERE"
_MISSPELT = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "EVERY", "OPTIONS", "WINDOW", "DWINDOW", "JOIN", "UNION",
             "EXCEPT", "INTERSECT")  # fmt: skip
_BRACKETS = "a window stands in brackets after its stream, as in a [RANGE 5 SECONDS]; or write WINDOW = 5 SECONDS"
_WITHOUT_PARTNER = "SELECT k FROM a [RANGE 1 HOUR] EXCEPT SELECT k FROM b [RANGE 1 HOUR]"
_WITH_PARTNER = "FROM a [RANGE 1 HOUR], (SELECT DISTINCT k FROM b [RANGE 1 HOUR]) AS d WHERE a.k = d.k"

OUTER = f"JOIN … ON … leaves out rows that have no partner; keys without one are {_WITHOUT_PARTNER}"
SEMI = f"join with the different keys: {_WITH_PARTNER}"
ANTI = f"what has no partner is {_WITHOUT_PARTNER}"
OTHER_JOINS = {
    "LEFT": OUTER, "RIGHT": OUTER, "FULL": OUTER, "OUTER": OUTER, "SEMI": SEMI, "ANTI": ANTI,
    "NATURAL": "write JOIN b ON a.k = b.k, with every column that must be equal",
    "ASOF": "JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 1 MINUTE AND a.ts gives all rows of that minute, "
            "not only the latest",
    "LATERAL": "a subquery in FROM does not see the streams beside it; join it by a condition in WHERE",
    "STRAIGHT_JOIN": "write JOIN … ON …; OPTIONS (order = (a, b)) says in which order rows are looked for",
}  # fmt: skip
STATEMENTS = {
    "INSERT": "rows come from the source of a CREATE STREAM; results go to a CREATE SINK name WITH (…) AS SELECT …",
    "UPDATE": "a row of a stream is never changed; GROUP BY, FIRST and LAST over a window give what holds now",
    "DELETE": "rows leave with their window: FROM a [RANGE 1 HOUR]",
    "MERGE": "on Spark the changes of an answer can be applied to a table, see docs/spark.md",
    "DROP": "what a script creates is gone when it ends",
    "ALTER": "change the CREATE statement; what a script creates is gone when it ends",
    "SHOW": "the streams are those that the script creates",
    "DESCRIBE": "EXPLAIN SELECT * FROM a tells how a query runs, and its columns",
}
FUNCTIONS = {
    **dict.fromkeys(
        ("now", "current_timestamp", "current_date", "current_time", "getdate", "sysdate", "localtimestamp"),
        "queries go by event time, not by the clock on the wall: EVENT_TIME() is the time of the newest row",
    ),
    **dict.fromkeys(
        ("datediff", "date_diff", "timestampdiff", "timestamp_diff", "age", "months_between"),
        "subtract the times: b.ts - a.ts is an interval, to be compared with INTERVAL 5 SECONDS",
    ),
    **dict.fromkeys(
        ("date_add", "dateadd", "date_sub", "adddate", "timestampadd", "timestamp_add"), "write ts + INTERVAL 1 DAY"
    ),
    **dict.fromkeys(
        ("to_timestamp", "timestamp", "str_to_date", "strptime", "parse_timestamp"), "write CAST(x AS TIMESTAMP)"
    ),
    **dict.fromkeys(("to_date", "date"), "write CAST(x AS DATE)"),
    **dict.fromkeys(("to_char", "to_string", "str", "convert", "try_cast", "safe_cast"), "write CAST(x AS STRING)"),
    **dict.fromkeys(("date_format", "strftime"), "DATE_TRUNC('hour', ts) and EXTRACT(HOUR FROM ts) take times apart"),
    **dict.fromkeys(("date_part", "datepart"), "write EXTRACT(HOUR FROM ts) or HOUR(ts)"),
    **dict.fromkeys(("unix_timestamp", "epoch", "epoch_ms", "to_unixtime"), "EPOCH_US(ts) is microseconds since 1970"),
    **dict.fromkeys(("if", "iif", "decode"), "write CASE WHEN x > 1 THEN y ELSE z END"),
    "isnull": "write x IS NULL, or COALESCE(x, 0)",
    "left": "write SUBSTRING(x, 1, n)",
    **dict.fromkeys(("position", "charindex", "instr", "strpos"), "CONTAINS(x, 'part') tells whether it is there"),
    **dict.fromkeys(("regexp_like", "regexp_matches", "rlike"), "LIKE knows % and _"),
    **dict.fromkeys(
        ("group_concat", "string_agg", "listagg", "array_agg", "collect_list", "collect_set"),
        "no aggregate collects values; FIRST, LAST, MIN and MAX give one of them",
    ),
    **dict.fromkeys(
        ("approx_count_distinct", "count_distinct", "uniq"), "write COUNT(DISTINCT x), which is exact"
    ),
    **dict.fromkeys(("any_value", "arbitrary"), "write MIN(x) or LAST(x)"),
    **dict.fromkeys(
        ("tumble", "hop", "session", "tumbling", "hopping", "window", "time_bucket"),
        "windows slide: FROM a [RANGE 5 MINUTES]; GROUP BY DATE_TRUNC('minute', ts) makes periods, "
        "RSTREAM … EVERY 5 MINUTES gives an answer for each",
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "lag", "lead", "ntile"),
        "OVER (…) is not supported; ORDER BY … LIMIT n keeps the first, a [PARTITION BY k ROWS 1] the last of each k",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Slip:
    """What is wrong at which token."""

    message: str
    hint: str
    at: Token


def is_word(token: Token) -> bool:
    """Whether this is a bare word: no quoted name, text, number or mark."""
    return bool(token) and token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING) and token.text[:1].isalpha()


def quote(word: str) -> str:
    return f'{word} is a word of the language; as a name it must be quoted: "{word}"'


def subquery_hint(before: list[str]) -> tuple[str, str]:
    """What is to be said of a subquery inside an expression, by the words before its parenthesis."""
    word = before[-1] if before else ""
    if word not in ("EXISTS", "IN"):
        return "a subquery inside an expression", "put it in FROM as (SELECT …) AS d and join it"
    if before[-2:-1] == ["NOT"]:
        return f"NOT {word} (SELECT …)", ANTI
    return f"{word} (SELECT …)", SEMI


def instead_of_from(previous: Token, found: Token, following: Token) -> Slip | None:
    """Something that stands where FROM should."""
    word, before = found.text.upper(), previous.text.upper()
    message = f"expected FROM, found {found.text!r}"
    if is_word(previous) and before != "FROM" and get_close_matches(before, ["FROM"], cutoff=0.7):
        return Slip(f"expected FROM, found {previous.text!r}", "did you mean FROM?", previous)
    if word == "DISTINCT" and is_word(previous):
        return Slip(message, f"write {before}(DISTINCT {_example(following)})", found)
    if before == "TOP" and found.token_type == TokenType.NUMBER:
        return Slip("TOP is not part of the language", f"write ORDER BY … LIMIT {found.text} at the end", previous)
    if previous.token_type == TokenType.STAR and is_word(found):
        return Slip(f"* {word} is not supported", "list the columns to be selected", found)
    if found.text == "&&":
        return Slip(message, "write AND", found)
    if found.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
        return Slip(message, "is a comma missing before it?", found)
    return None


def _example(following: Token) -> str:
    """What was written next, to be shown in a hint; a letter if that is the end."""
    return following.text if is_word(following) else "x"


def unexpected(previous: Token, found: Token, following: Token) -> Slip | None:
    """Something that stands where nothing of its kind can."""
    word, before = found.text.upper(), previous.text.upper() if is_word(previous) else ""
    message = f"did not expect {found.text!r} here"
    if before == "MINUS" and word == "SELECT":
        return Slip("MINUS is not part of the language", "write EXCEPT", previous)
    if found.token_type == TokenType.NUMBER and before in ("RANGE", "ROWS", "WITHIN", "LAST", "DURING"):
        return Slip(message, _BRACKETS, previous)
    if following.token_type == TokenType.NUMBER and is_word(found) and word in ("RANGE", "ROWS"):
        return Slip(message, _BRACKETS, found)
    near = _misspelt_clause(previous, found)
    if near is not None:
        return Slip(f"did not expect {found.text!r} after {previous.text}", f"did you mean {near}?", previous)
    if word in ("GROUP", "ORDER") and is_word(found):
        return Slip(f"{word} needs BY", f"write {word} BY {_example(following)}", found)
    if word == "WHERE" and before in ("AND", "OR"):
        return Slip("WHERE stands once", f"leave out WHERE after {before}", found)
    if is_word(found) and word in CLAUSES:
        return Slip(f"{word} cannot stand here", _CLAUSE_ORDER, found)
    hints = {
        "ON": "ON goes with JOIN; between streams that commas or CROSS JOIN list, conditions go into WHERE",
        "INNER": "write INNER JOIN or JOIN",
        "CROSS": "write CROSS JOIN",
        "SELECT": "end a statement with ;, or put UNION, EXCEPT or INTERSECT between two queries",
        "&&": "write AND",
        ")": "this parenthesis was not opened",
    }
    if found.text == "/" and previous.text == "/":
        return Slip(message, "FLOOR(x / y) is the whole part of a division", found)
    return Slip(message, hints[word], found) if word in hints else None


def _misspelt_clause(previous: Token, found: Token) -> str | None:
    """The clause that was meant by a word which was taken for an alias."""
    # VAR: a word that was read as a name. It was one before ), where no clause can begin.
    if previous.token_type != TokenType.VAR or found.token_type == TokenType.R_PAREN:
        return None
    word = previous.text.upper()
    near = get_close_matches(word, [clause for clause in _MISSPELT if clause != word], n=1, cutoff=0.75)
    return near[0] if near else None
