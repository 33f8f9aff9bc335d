"""The grammar in docs/language.md is that of the parser: it derives nothing else, and lacks none of its words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp
from sqlglot.tokens import Tokenizer

from tests.docs.grammar import Grammar
from tests.docs.test_shown import COMING_FROM, LANGUAGE, ROOT, blocks
from watersmeet import sql
from watersmeet.errors import SqlError
from watersmeet.model.types import _PLAIN
from watersmeet.sql import clauses, dialect, expressions, from_syntax, parse_script

PARSER = (
    "dialect",
    "window_clause",
    "settings",
    "window_functions",
    "group_windows",
    "from_syntax",
    "clauses",
    "statements",
)
# Words that the parser knows in order to refuse them with a hint, and those that only tell a name from a keyword.
REFUSED = {"RECURSIVE", "CHANGELOG", "PROCTIME", "IF", "STRAIGHT_JOIN", "PATTERN", "NATURAL", "GRACE", "PERIOD"}


@cache
def grammar() -> Grammar:
    return Grammar(section())


def section() -> str:
    text = LANGUAGE.read_text(encoding="utf-8")
    return text.partition("\n## Grammar\n")[2].partition("\n## ")[0]


def test_every_part_of_the_grammar_is_defined_and_reached() -> None:
    assert grammar().undefined() == set()
    assert {name for name, _ in grammar().sentences("script")} == set(grammar().productions)


def test_what_the_grammar_derives_is_read() -> None:
    refused = [f"{name}: {text}\n{fault}" for name, text in sentences() if (fault := _fault(text))]
    assert refused == []


@cache
def sentences() -> list[tuple[str, str]]:
    return list(dict.fromkeys(grammar().sentences("script")))


def _fault(text: str) -> str:
    try:
        parse_script(text, [1] * text.count("?") or None)
    except SqlError as error:
        return str(error)
    return ""


def scripts() -> Iterator[Path]:
    yield from (ROOT / "examples").rglob("*.sql")
    yield from (path for path in (ROOT / "tests" / "plans").glob("*.sql") if not path.name.startswith("error_"))


@pytest.mark.parametrize("path", sorted(scripts()), ids=lambda path: path.stem)
def test_a_script_that_is_read_is_derived(path: Path) -> None:
    _derived(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [LANGUAGE, COMING_FROM, ROOT / "docs" / "coming_from_views.md"], ids=lambda page: page.name
)
def test_the_queries_of_a_page_are_derived(page: Path) -> None:
    for language, text in blocks(page):
        if language == "sql":
            _derived(text)


def _derived(text: str) -> None:
    at = grammar().derives("script", text)
    assert at is None, f"the grammar does not go on behind {at} tokens of: {text}"


# -- no word is missing -------------------------------------------------------------------------------------------


def test_every_word_that_the_parser_asks_for_is_in_the_grammar() -> None:
    assert asked() - grammar().keywords() - REFUSED == set()
    assert asked() >= {"DEDUPLICATE", "TUMBLE", "HOP", "QUALIFY", "ISTREAM", "SLIDE", "ASOF", "OPTIONS", "DESCRIPTOR"}


def test_words_that_are_refused_are_not_in_the_grammar() -> None:
    assert REFUSED & grammar().keywords() == set()


def asked() -> set[str]:
    """Words in calls and comparisons of the parser's own files, and in its tables."""
    folder = Path(sql.__file__).parent
    found = {word for name in PARSER for word in _asked_in(ast.parse((folder / f"{name}.py").read_text("utf-8")))}
    tables = [*dialect.RESERVED, *dialect._UNIT_WORDS, *clauses._STREAM_WORDS, *_PLAIN]
    return found | set(tables) | {word for words, _ in from_syntax._JOIN_WORDS for word in words}


def _asked_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("_match_text_seq", "_at_call"):
                yield from _words(node.args)
            if node.func.attr == "_match":
                yield from (word for one in node.args for word in _of_token(one))
        elif isinstance(node, ast.Compare) and re.search(r"\.upper\(\)|_tokens_ahead", ast.unparse(node.left)):
            yield from _words(node.comparators)
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("token_type"):
            yield from (word for one in node.comparators for inner in ast.walk(one) for word in _of_token(inner))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_FORMS":
            yield from ast.literal_eval(node.value)


def _words(nodes: list[ast.expr]) -> Iterator[str]:
    constants = (one.value for node in nodes for one in ast.walk(node) if isinstance(one, ast.Constant))
    return (word for word in constants if isinstance(word, str) and re.fullmatch("[A-Z_]+", word))


def _of_token(node: ast.expr) -> Iterator[str]:
    """`TokenType.GROUP_BY`: the words that the tokenizer makes one of."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "TokenType":
        written = [text for text, kind in Tokenizer.KEYWORDS.items() if kind.name == node.attr]
        named = [text for text in written if text == node.attr.replace("_", " ")]
        yield from (word for text in named or written[:1] for word in text.split() if word.isalpha())


def test_every_kind_of_expression_that_is_bound_is_in_the_grammar() -> None:
    source = Path(expressions.__file__).read_text(encoding="utf-8")
    bound = {
        name
        for line in re.findall(r"^ +case (.*):$", source, re.MULTILINE)
        for name in re.findall(r"exp\.(\w+)\(", line)
    }
    bound |= {kind.__name__ for kind in expressions._BINARY}
    seen = {
        type(node).__name__
        for _, text in sentences()
        for node in _nodes(parse_script(text, [1] * text.count("?") or None))
    }
    # Trees that only equivalents of other dialects make.
    assert bound - seen - {"BitwiseXor"} == set()


def _nodes(value: Any) -> Iterator[exp.Expr]:
    if isinstance(value, exp.Expr):
        for one in value.walk():
            yield one
            yield from (node for inner in one.args.values() if is_dataclass(inner) for node in _nodes(inner))
    elif isinstance(value, list | tuple):
        yield from (node for one in value for node in _nodes(one))
    elif is_dataclass(value):
        yield from (node for one in fields(value) for node in _nodes(getattr(value, one.name)))


def test_the_reserved_words_are_listed() -> None:
    listed = section().partition("names only in quotes: ")[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", listed) == sorted(dialect.RESERVED)
