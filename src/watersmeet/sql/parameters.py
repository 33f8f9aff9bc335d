"""Values in the places of `:name`, `$name` and `?`: each becomes the words of a typed constant, never text to be read.

A value is put in after the text was split into words, so nothing in it can be taken for SQL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import Token, TokenType

from watersmeet.errors import ParseError
from watersmeet.plan.expressions import Literal
from watersmeet.sql.syntax import Span

Parameters = Mapping[str, Any] | Sequence[Any]
# A word of the language; or a constant that it has no single word for.
Word = tuple[TokenType, str] | Literal

_OPEN, _CLOSE, _COMMA = (TokenType.L_PAREN, "("), (TokenType.R_PAREN, ")"), (TokenType.COMMA, ",")
_KINDS = "numbers, text, booleans, None, datetimes, dates, timedeltas and Decimals, and lists of them after IN"
_MICROSECOND = timedelta(microseconds=1)


def with_values(tokens: Sequence[Token], text: str, parameters: Parameters | None) -> tuple[list[Token], list[Literal]]:
    """The words of a text with those of its values in it, every one of which has to be used; and the constants that
    its PLACEHOLDER words stand for, by their column."""
    values = _Values(text, parameters)
    constants: list[Literal] = []
    found: list[Token] = []
    at = depth = 0
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else None
        depth += (token.token_type == TokenType.L_BRACKET) - (token.token_type == TokenType.R_BRACKET)
        name, used = _placeholder(token, following)
        if name and depth and _after_operand(found) and (name.isdecimal() or not values.has(name)):
            name = None  # x[2:3] is a part of a list
        if name is None:
            found.append(token)
            at += 1
            continue
        span = (token.start, tokens[at + used - 1].end + 1)
        if token.token_type == TokenType.QDCOLON:
            span = (token.start, token.start + 1)
        value = values.take(name, span)
        at += used
        enclosed = bool(found) and found[-1].token_type == TokenType.L_PAREN
        for word in values.words(value, span, enclosed):
            found.append(_token(word, span, len(constants)))
            constants += [word] if isinstance(word, Literal) else []
        if token.token_type == TokenType.QDCOLON:  # ?::BIGINT
            found.append(Token(TokenType.DCOLON, "::", token.line, token.col, token.start + 1, token.end))
    values.check_all_used()
    return found, constants


def _after_operand(before: list[Token]) -> bool:
    """Whether what stands before is a value or an open bracket, and not a word such as ROWS."""
    kinds = (TokenType.L_BRACKET, TokenType.R_BRACKET, TokenType.R_PAREN, TokenType.NUMBER, TokenType.IDENTIFIER)
    return before[-1].token_type in kinds or before[-1].text.upper() not in ("ROWS", "RANGE", "SLIDE")


def _token(word: Word, span: Span, number: int) -> Token:
    kind, text = (TokenType.PLACEHOLDER, str(word.value)) if isinstance(word, Literal) else word
    return Token(kind, text, col=number, start=span[0], end=span[1] - 1)


def _placeholder(token: Token, following: Token | None) -> tuple[str | None, int]:
    """The name of the value that is to stand here ('' for the next one of a list), and how many words ask for it."""
    if token.token_type in (TokenType.PLACEHOLDER, TokenType.QDCOLON):
        return "", 1
    if token.token_type == TokenType.VAR and token.text[:1] == "$" and len(token.text) > 1:
        return token.text[1:], 1
    if token.token_type == TokenType.COLON and following is not None and following.start == token.end + 1:
        word = following.text
        if following.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) and (
            word.isidentifier() or word.isdecimal()
        ):
            return word, 2
    return None, 1


class _Values:
    """The values by name or in their order, and which of them were used."""

    def __init__(self, text: str, parameters: Parameters | None) -> None:
        if parameters is not None and (
            isinstance(parameters, str | bytes) or not isinstance(parameters, Mapping | Sequence)
        ):
            raise self._wrong_kind(text, parameters)
        self.text, self.given = text, parameters
        self._used: set[Any] = set()
        self._next = 0

    @staticmethod
    def _wrong_kind(text: str, parameters: object) -> ParseError:
        return ParseError(
            f"the values of a query are given as a dict or a list, not as a {type(parameters).__name__}",
            hint="sql(text, {'name': value}) for :name, sql(text, [value]) for ?",
        )

    def has(self, name: str) -> bool:
        return isinstance(self.given, Mapping) and name in self.given

    def take(self, name: str, span: Span) -> Any:
        written = self.text[span[0] : span[1]]
        if name and not name.isdecimal():
            return self._named(name, written, span)
        if isinstance(self.given, Mapping) or self.given is None:
            raise self._error(f"there is no value for {written}", span, "give the values as a list: sql(text, [value])")
        position = int(name) - 1 if name else self._next
        self._next += 0 if name else 1
        if not 0 <= position < len(self.given):
            count = "1 is" if len(self.given) == 1 else f"{len(self.given)} are"
            raise self._error(f"there is no value for {written} number {position + 1}: {count} given", span)
        self._used.add(position)
        return self.given[position]

    def _named(self, name: str, written: str, span: Span) -> Any:
        if not isinstance(self.given, Mapping):
            raise self._error(
                f"there is no value for {written}", span, f"give the values by name: sql(text, {{{name!r}: value}})"
            )
        if name not in self.given:
            near = get_close_matches(name, [str(one) for one in self.given], n=1)
            raise self._error(
                f"there is no value for {written}",
                span,
                f"did you mean :{near[0]}?" if near else f"give it: sql(text, {{{name!r}: value}})",
            )
        self._used.add(name)
        return self.given[name]

    def check_all_used(self) -> None:
        given = self.given
        if given is None:
            return
        if isinstance(given, Mapping):
            unused = [f"the value {name!r}" for name in given if name not in self._used]
            hint = "write :name where it belongs"
        else:
            unused = [f"value number {i + 1}" for i in range(len(given)) if i not in self._used]
            hint = "write ? where it belongs"
        if unused:
            raise ParseError(f"{unused[0]} is given, but the text does not use it", hint=hint)

    def words(self, value: Any, span: Span, enclosed: bool) -> list[Word]:
        if isinstance(value, list | tuple | set | frozenset):
            if not value:
                raise self._error(f"the list for {self.text[slice(*span)]} is empty", span)
            inside = [word for one in value for word in (_COMMA, *self._constant(one, span))][1:]
            return inside if enclosed else [_OPEN, *inside, _CLOSE]
        return self._constant(value, span)

    def _constant(self, value: Any, span: Span) -> list[Word]:
        try:
            return _words(value.item() if isinstance(value, np.generic) else value)
        except ValueError as error:
            raise self._error(
                f"the value for {self.text[slice(*span)]} {error}", span, f"values are {_KINDS}"
            ) from None

    def _error(self, message: str, span: Span, hint: str | None = None) -> ParseError:
        return ParseError(message, sql=self.text, span=span, hint=hint)


def _words(value: Any) -> list[Word]:
    """A constant as the words that the language has for it. Raises ValueError for what it has none for."""
    match value:
        case None:
            return [(TokenType.NULL, "NULL")]
        case bool():
            return [(TokenType.TRUE, "TRUE") if value else (TokenType.FALSE, "FALSE")]
        case int():
            return _number(str(abs(value)), value < 0)
        case float() if math.isfinite(value):
            return _number(repr(abs(value)), math.copysign(1, value) < 0)
        case str():
            return [(TokenType.STRING, value)]
        case timedelta():
            us = value // _MICROSECOND
            return [(TokenType.INTERVAL, "INTERVAL"), (TokenType.STRING, f"{us} microseconds")]
    return [_literal(value)]


def _number(digits: str, negative: bool) -> list[Word]:
    number = (TokenType.NUMBER, digits)
    return [_OPEN, (TokenType.DASH, "-"), number, _CLOSE] if negative else [number]


def _literal(value: Any) -> Literal:
    """A constant that takes more than a word to write."""
    match value:
        case float():
            return Literal(value, pa.float64())
        case Decimal() if value.is_finite():
            return _decimal(value)
        case datetime():
            if getattr(value, "nanosecond", 0):
                raise ValueError(f"is finer than a microsecond: {value}")
            moment = datetime.fromisoformat(value.isoformat(timespec="microseconds"))
            if moment.tzinfo is None:
                return Literal(moment, pa.timestamp("us"))
            return Literal(moment.astimezone(UTC), pa.timestamp("us", tz="UTC"))
        case date():
            return Literal(value, pa.date32())
    raise ValueError(f"is a {type(value).__name__}, which is no constant of the language")


def _decimal(value: Decimal) -> Literal:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise ValueError(f"has {precision} digits, and a DECIMAL has at most 38")
    return Literal(value, pa.decimal128(precision, scale))
