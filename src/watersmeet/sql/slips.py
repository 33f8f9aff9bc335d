"""Typical slips of those who know other SQL: what is wrong, and what would do. Only texts that failed come here."""

from __future__ import annotations

from difflib import get_close_matches

from sqlglot import Token, TokenType

from watersmeet.dataclass import dataclass
from watersmeet.sql.foreign import AFTER_A_STREAM, PHRASES

CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "EVERY", "OPTIONS")
_CLAUSE_ORDER = f"the clauses come in this order: {', '.join(CLAUSES)}; WINDOW = … before or after WHERE"
_MISSPELT = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "EVERY", "OPTIONS", "WINDOW", "DWINDOW", "JOIN", "UNION",
             "EXCEPT", "INTERSECT")  # fmt: skip
_BRACKETS = "a window stands in brackets after its stream, as in a [RANGE 5 SECONDS]; or write WINDOW = 5 SECONDS"
OTHER_JOINS = {
    "OUTER": "write LEFT, RIGHT or FULL before it: a LEFT JOIN b ON …",
    "RIGHT": "rows of the right side that have a partner, or none, are b SEMI JOIN a and b ANTI JOIN a",
    "STRAIGHT_JOIN": "write JOIN … ON …; OPTIONS (order = (a, b)) says in which order rows are looked for",
}  # fmt: skip
STATEMENTS = {
    "INSERT": "rows come from the source of a CREATE STREAM; results go to a CREATE SINK name WITH (…) AS SELECT …",
    "UPDATE": "a row of a stream is never changed; GROUP BY, FIRST and LAST over a window give what holds now",
    "DELETE": "rows leave with their window: FROM a [RANGE 1 HOUR]",
    "MERGE": "CREATE SINK t WITH (sink = 'postgres', …) AS SELECT … keeps a table as the answer is, docs/databases.md",
    "DROP": "what a script creates is gone when it ends",
    "ALTER": "change the CREATE statement; what a script creates is gone when it ends",
    "SHOW": "the streams are those that the script creates",
    "SET": "SET engine = 'local' says where a script runs, SET memory = '64 MB' what joins keep; what a query is told "
    "stands at its end, OPTIONS (name = value), and what Spark is told in --conf name=value",
    "USE": "names have one part: streams and tables are those that the script creates",
    "COPY": "results go to a sink: CREATE SINK name WITH (…) AS SELECT …",
    "FROM": "write SELECT * FROM a, with SELECT before FROM",
    "SUMMARIZE": "write the aggregates: SELECT COUNT(*), MIN(x), MAX(x), AVG(x) FROM a [UNBOUNDED]",
    "DESCRIBE": "EXPLAIN SELECT * FROM a tells how a query runs, and its columns",
}


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
    foreign = _foreign(previous, found, following)
    if foreign is not None:
        return foreign
    if found.token_type == TokenType.NUMBER and before in ("RANGE", "ROWS", "WITHIN", "LAST", "DURING"):
        return Slip(message, _BRACKETS, previous)
    if following.token_type == TokenType.NUMBER and is_word(found) and word in ("RANGE", "ROWS"):
        return Slip(message, _BRACKETS, found)
    if word in ("SORT BY", "CLUSTER BY", "DISTRIBUTE BY"):
        hint = "write ORDER BY; how rows are spread is found without being told"
        return Slip(f"{word} is not part of the language", hint, found)
    if word == "USING" and following.text.upper() == "SAMPLE":
        return Slip("USING SAMPLE is not part of the language", PHRASES["SAMPLE"], found)
    if found.text == "." and is_word(previous):
        return Slip(message, "names of streams and tables have one part: FROM orders", found)
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
        "~": "LIKE knows % and _",
        ")": "this parenthesis was not opened",
    }
    if found.text == "/" and previous.text == "/":
        return Slip(message, "FLOOR(x / y) is the whole part of a division", found)
    return Slip(message, hints[word], found) if word in hints else None


def _foreign(previous: Token, found: Token, following: Token) -> Slip | None:
    """A clause of another language: at its first word, or behind it if that was taken for an alias."""
    if found.text in ("#", ".") and following.text.lower() in AFTER_A_STREAM:
        name = f"{found.text}{following.text}"
        return Slip(f"{name} is not part of the language", AFTER_A_STREAM[following.text.lower()], found)
    for token in (previous, found):
        # VAR, or a keyword that only other languages give a meaning: a stream may be called so, but not here.
        if is_word(token) and token.text.upper() in PHRASES:
            return Slip(f"{token.text.upper()} is not part of the language", PHRASES[token.text.upper()], token)
    return None


def _misspelt_clause(previous: Token, found: Token) -> str | None:
    """The clause that was meant by a word which was taken for an alias."""
    # VAR: a word that was read as a name. It was one before ), where no clause can begin.
    if previous.token_type != TokenType.VAR or found.token_type == TokenType.R_PAREN:
        return None
    word = previous.text.upper()
    near = get_close_matches(word, [clause for clause in _MISSPELT if clause != word], n=1, cutoff=0.75)
    return near[0] if near else None
