"""The dialect: sqlglot's tokens and scalar expressions, with our intervals and window constraints in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, ClassVar, NoReturn

from sqlglot import Token, TokenType, exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError as SqlglotParseError

from watersmeet.errors import ParseError, SqlError
from watersmeet.model.time import FOREVER_US, UNITS_US, parse_interval, scale_to_us, unit_us
from watersmeet.model.types import arrow_type
from watersmeet.plan.expressions import Literal
from watersmeet.sql import slips
from watersmeet.sql.syntax import (
    Constant,
    Constraint,
    ConstraintKind,
    Duration,
    JsonAccess,
    Length,
    LengthUnit,
    Months,
    Name,
    QuerySyntax,
    Span,
    Subquery,
    WindowCondition,
    Xor,
    locate,
)

BEGINS_QUERY = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)
# Never a name unless quoted, as an alias needs no AS: FROM a WHERE … would call it where.
RESERVED = frozenset((
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "EVERY", "UNION", "EXCEPT", "INTERSECT", "ORDER", "LIMIT",
    "OFFSET", "OPTIONS", "QUALIFY", "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "NATURAL", "SEMI",
    "ANTI", "ON", "USING", "AS", "AND", "OR", "NOT", "WINDOW", "DWINDOW", "WITH", "CASE", "WHEN", "THEN", "ELSE", "END",
    "IN", "IS", "LIKE", "BETWEEN", "NULL", "TRUE", "FALSE", "DISTINCT", "ALL", "BY", "CREATE", "INTERVAL",
))  # fmt: skip
_CALENDAR_UNITS: dict[str, tuple[LengthUnit, int]] = {
    "day": ("day", 1), "d": ("day", 1), "week": ("week", 1), "w": ("week", 1), "month": ("month", 1),
    "mon": ("month", 1), "quarter": ("month", 3), "year": ("month", 12), "y": ("month", 12),
}  # fmt: skip
_UNIT_WORDS = frozenset(f"{unit}{plural}".upper() for unit in UNITS_US for plural in ("", "s"))
# What sqlglot asks for in vain, in our words.
_WANTED: dict[str, tuple[str, str | None]] = {
    "Expected END after CASE": ("CASE needs END", "write CASE WHEN … THEN … ELSE … END"),
    "Expecting )": ("expected )", None),
    "Expecting (": ("expected (", None),
    "Expected AS after CAST": ("CAST needs AS and a type", "write CAST(x AS BIGINT)"),
    "Expected TYPE after CAST": ("CAST needs a type after AS", "write CAST(x AS BIGINT)"),
    "Expected type after '::'": (":: needs a type", "write x::BIGINT"),
    "Expected FROM or comma after EXTRACT": ("EXTRACT needs FROM", "write EXTRACT(HOUR FROM ts)"),
}
_SESSIONS = (
    "sessions stand in FROM: FROM SESSION(a, 5 MINUTES PARTITION BY k), with OVER (PARTITION BY k, window_start ORDER "
    "BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
)
_MONTHS_OF = {"MONTH": 1, "MONTHS": 1, "QUARTER": 3, "QUARTERS": 3, "YEAR": 12, "YEARS": 12}


class TextError(SqlglotParseError):
    """A mistake in the text. A subclass of sqlglot's error so that its trial parses can back out of it."""

    def __init__(self, message: str, span: Span, hint: str | None = None, kind: type[SqlError] = ParseError) -> None:
        super().__init__(message, errors=[{"description": message}])
        self.message, self.span, self.hint, self.kind = message, span, hint, kind


class ExpressionParser(parser.Parser):
    """Scalar expressions with spans. Functions stay as written: which exist is for the binder to say."""

    # Empty, so that every call is an exp.Anonymous with its name as written: sqlglot knows hundreds, we know ours.
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    # CASE, CAST, EXTRACT and some others have a grammar of their own and stay with sqlglot.
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"],
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser.Parser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "TRIM", "SUBSTRING")
    } | {name: lambda self: self.parse_rounded() for name in ("FLOOR", "CEIL")}
    # What stands behind the arrow stays as written: which paths there are is for the functions to say.
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        **parser.Parser.COLUMN_OPERATORS,
        TokenType.ARROW: lambda self, this, path: JsonAccess(this=this, expression=path, as_text=False),
        TokenType.DARROW: lambda self, this, path: JsonAccess(this=this, expression=path, as_text=True),
        TokenType.HASH_ARROW: lambda self, this, path: JsonAccess(
            this=this, expression=path, as_text=False, by_steps=True
        ),
        TokenType.DHASH_ARROW: lambda self, this, path: JsonAccess(
            this=this, expression=path, as_text=True, by_steps=True
        ),
    }
    BITWISE: ClassVar[dict[TokenType, type[exp.Binary]]] = {**parser.Parser.BITWISE, TokenType.HASH: Xor}
    LAMBDAS: ClassVar[dict[TokenType, Any]] = {}  # an arrow among arguments is the same as everywhere
    RANGE_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **parser.Parser.RANGE_PARSERS,
        **dict.fromkeys((TokenType.TILDE, TokenType.IRLIKE), lambda self, this: self.refuse_tilde()),
    }
    # Values have taken their places already (parameters.py): a colon is one of x[2:n].
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {
        kind: parse for kind, parse in parser.Parser.PLACEHOLDER_PARSERS.items() if kind != TokenType.COLON
    }
    EXPONENT: ClassVar[dict[TokenType, type[exp.Expr]]] = {TokenType.DSTAR: exp.Pow}
    # IS is asked of a whole comparison, as in PostgreSQL and DuckDB: x = y IS NULL is (x = y) IS NULL.
    IS_PREDICATE_PRECEDENCE: ClassVar[Any] = parser.IsPredicatePrecedence.LOW
    # LIST is an aggregate: LIST(x)[1] is its first value.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {"ARRAY": exp.Array}
    FUNC_TOKENS: ClassVar[set[TokenType]] = {*parser.Parser.FUNC_TOKENS, TokenType.IDENTIFIER, TokenType.DIV}

    constants: Sequence[Literal] = ()  # what the PLACEHOLDER words stand for, by their column (see parameters.py)

    # -- errors ---------------------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Token = parser.SENTINEL_NONE) -> None:
        wanted = _WANTED.get(message)
        if wanted is not None:
            in_frame = self._curr and (self._curr.text.upper(), self._next.text.upper()) == ("SESSION", "WITH")
            self.fail(f"{wanted[0]}, found {self._found()}", hint=_SESSIONS if in_frame else wanted[1])
        # Past the end sqlglot has a sentinel: a token that is false, but whose text is not empty.
        token = token or self._curr
        if not token:
            self.fail("the text ends too early: something is missing here")
        if message.startswith("Required argument"):
            self.fail(f"something is missing before {token.text!r}", self._span(token))
        self._fail_unexpected(token)

    def _fail_unexpected(self, token: Token) -> NoReturn:
        # The slips are told from the neighbours, which are known of the current token only.
        slip = slips.unexpected(self._prev, self._curr, self._next) if token is self._curr else None
        if slip is not None:
            self.fail(slip.message, self._span(slip.at), slip.hint)
        self.fail(f"did not expect {token.text!r} here", self._span(token))

    def fail(
        self, message: str, span: Span | None = None, hint: str | None = None, kind: type[SqlError] = ParseError
    ) -> NoReturn:
        raise TextError(message, span or self._here(), hint, kind)

    def _here(self) -> Span:
        if self._curr:
            return self._span(self._curr)
        end = self._prev.end + 1 if self._prev else len(self.sql)
        return (end, end + 1)

    @staticmethod
    def _span(token: Token) -> Span:
        return (token.start, token.end + 1)

    def _from(self, start: Token) -> Span:
        """From a token to the last one consumed."""
        # If nothing was consumed, the last token lies before the first.
        return (start.start, max(self._prev.end, start.start) + 1)

    def _found(self) -> str:
        return repr(self._curr.text) if self._curr else "the end of the text"

    # -- spans ----------------------------------------------------------------------------------------------

    def _located(self, parse: Callable[..., exp.Expr | None], *args: Any) -> exp.Expr | None:
        start = self._curr
        node = parse(*args)
        if node is not None and start:
            locate(node, self._from(start))
        return node

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._located(super()._parse_disjunction)

    def _parse_conjunction(self) -> exp.Expr | None:
        return self._located(super()._parse_conjunction)

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        # Constraints may be conjuncts of WHERE and ON, and stand where a comparison would.
        if self._at_constraint():
            start = self._curr
            node = WindowCondition(constraint=self._constraint())
            locate(node, self._from(start))
            return node
        return _among_rows(self._located(super()._parse_equality, parse_is))

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._located(super()._parse_bitwise)

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._located(super()._parse_term, parse_mod)

    def _parse_factor(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._located(super()._parse_factor, parse_mod)

    def _parse_unary(self) -> exp.Expr | None:
        return self._located(super()._parse_unary)

    def _parse_atom(self) -> exp.Expr | None:
        # A bare interval begins with a number, so it must be kept from being read as one.
        return None if self._at_bare_interval() else self._located(super()._parse_atom)

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if this is not None:  # the span would begin too late; the caller sets it
            return super()._parse_comparison(this)
        return self._located(super()._parse_comparison)

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        if this is not None:
            return super()._parse_range(this, parse_is)
        return self._located(super()._parse_range, None, parse_is)

    def refuse_tilde(self) -> NoReturn:
        self.fail(
            f"{self._prev.text} looks for a pattern in PostgreSQL, and for all of it in DuckDB",
            self._span(self._prev),
            hint="write REGEXP_MATCHES(s, 'a.b'), REGEXP_MATCHES(s, 'a.b', 'i') in any case, or REGEXP_FULL_MATCH",
        )

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        # Either may be the name of a column, too.
        symmetric = self._next.token_type != TokenType.AND and self._match_text_seq("SYMMETRIC")
        if not symmetric and self._next.token_type != TokenType.AND:
            self._match_text_seq("ASYMMETRIC")
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.fail(f"BETWEEN needs AND and an upper end, found {self._found()}", hint="write x BETWEEN 1 AND 5")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise(), symmetric=bool(symmetric)))

    def _parse_substring(self) -> Any:
        """`SUBSTRING(s FROM 2 FOR 3)` too is a call as any other."""
        args: list[exp.Expr | None] = list(self._parse_csv(self._parse_bitwise))
        for word in (TokenType.FROM, TokenType.FOR):
            if self._match(word):
                if word == TokenType.FOR and len(args) == 1:
                    args.append(exp.Literal.number(1))
                args.append(self._parse_bitwise())
        return exp.Anonymous(this="SUBSTRING", expressions=args)

    def parse_rounded(self) -> exp.Expr:
        """`FLOOR(x)`, and of times Flink's `FLOOR(ts TO HOUR)`."""
        word = self._tokens[self._index - 2].text.upper()
        args = self._parse_csv(self._parse_disjunction)
        if not self._match_text_seq("TO"):
            return exp.Anonymous(this=word, expressions=args)
        unit = self._curr.text
        if word == "CEIL":
            hint = f"write DATE_TRUNC('{unit.lower()}', ts), which is FLOOR, and add INTERVAL 1 {unit.upper()}"
            self.fail("CEIL of a time is not part of the language", self._span(self._prev), hint)
        self._advance()
        return exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(unit), *args])

    def _parse_ordered(self, *args: Any, **kwargs: Any) -> Any:
        """NULLs come last, whichever way, unless it is said that they come first."""
        node = super()._parse_ordered(*args, **kwargs)
        if node is not None:
            said = self._index > 1 and self._tokens[self._index - 2].text.upper() == "NULLS"
            node.set("nulls_first", said and self._prev.text.upper() == "FIRST")
        return node

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Reached only from inside expressions, where a query may stand in parentheses."""
        if self._curr.token_type not in BEGINS_QUERY:
            return None
        start = self._curr
        node = Subquery(query=self._nested_query())
        locate(node, self._from(start))
        return node

    def _nested_query(self) -> QuerySyntax:
        raise NotImplementedError  # the clauses of a query have a parser of their own, which is made of this one

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._located(lambda: super(ExpressionParser, self)._parse_types(*args, **kwargs))

    def _parse_user_defined_type(self, identifier: exp.Identifier) -> exp.Expr | None:
        if arrow_type(identifier.name) is not None:
            return super()._parse_user_defined_type(identifier)
        self.fail(f"{identifier.name} is not a type", self._span(self._prev), hint="for example BIGINT, DOUBLE, STRING")

    def _struct(self) -> exp.Expr:
        """`STRUCT(x, y AS name)`, which sqlglot takes for a type."""
        self._advance(2)
        made = exp.Anonymous(this="STRUCT", expressions=self._parse_csv(self._struct_field))
        self._close(")")
        return made

    def _struct_field(self) -> exp.Expr | None:
        value = self._parse_disjunction()
        named = self._match(TokenType.ALIAS)
        return exp.Alias(this=value, alias=exp.to_identifier(self._name("a name after AS").text)) if named else value

    # -- intervals ------------------------------------------------------------------------------------------

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        if self._at_bare_interval():
            start = self._curr
            node = Duration(us=self._interval())
            locate(node, self._from(start))
            return node
        if self._curr.token_type == TokenType.STRUCT and self._next.token_type == TokenType.L_PAREN:
            return self._located(lambda: self._parse_column_ops(self._struct()))
        if self._curr.token_type == TokenType.PLACEHOLDER:
            self._advance()
            constant = Constant(literal=self.constants[self._prev.col])
            locate(constant, self._span(self._prev))
            return constant
        return self._located(super()._parse_type, parse_interval, fallback_to_identifier)

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        # Otherwise interval is a name, of a column perhaps.
        if self._curr.token_type != TokenType.INTERVAL or self._next.token_type not in (
            TokenType.STRING, TokenType.NUMBER, TokenType.DASH,
        ):  # fmt: skip
            return None
        months = self._months()
        return Duration(us=self._interval()) if months is None else Months(months=months)

    def _months(self) -> int | None:
        """`INTERVAL '3' MONTH`, `INTERVAL 3 MONTHS` and `INTERVAL '3 months'`, if such an interval stands here."""
        negative = self._next.token_type == TokenType.DASH
        at = self._index + 1 + negative
        words = " ".join(token.text for token in self._tokens[at : at + 2]).upper().split()
        if len(words) < 2 or words[1] not in _MONTHS_OF or not words[0].lstrip("+-").isdecimal():
            return None
        written_in_text = len(self._tokens[at].text.split()) > 1
        self._advance(2 + negative + (not written_in_text))
        return (-1 if negative else 1) * int(words[0]) * _MONTHS_OF[words[1]]

    def _at_bare_interval(self) -> bool:
        """`30 SECONDS` without INTERVAL; only whole unit words, so that `SELECT 1 s` keeps its alias."""
        return (
            self._curr.token_type == TokenType.NUMBER
            and self._next.token_type != TokenType.IDENTIFIER
            and self._next.text.upper() in _UNIT_WORDS
        )

    def _interval(self) -> int:
        """An interval in any of its spellings, in microseconds."""
        start = self._curr
        self._match(TokenType.INTERVAL)
        sign = -1 if self._match(TokenType.DASH) else 1
        if self._match(TokenType.STRING):
            return sign * self._interval_text(start, self._prev.text)
        if self._curr.token_type != TokenType.NUMBER:
            self.fail(f"expected an interval such as 30 SECONDS, found {self._found()}")
        total = 0
        while self._match(TokenType.NUMBER):
            total += self._scaled(start, self._prev.text)
            if not self._at_bare_interval():
                break
        return sign * self._countable(start, total)

    def _length(self) -> Length:
        """An interval of windows, where days and longer are those of the calendar."""
        start, index = self._curr, self._index
        found = self._calendar_length()
        if found is not None:
            return found
        self._retreat(index)
        us = self._interval()
        words = {word.lower().removesuffix("s") for word in re.findall("[a-zA-Z]+", self._text(start))}
        if words & _CALENDAR_UNITS.keys():
            hint = "write whole days, or hours: 36 HOURS are the same everywhere"
            self.fail("days and longer are those of the calendar, and have no parts", self._from(start), hint)
        return Length(us)

    def _text(self, start: Token) -> str:
        first, end = self._from(start)
        return self.sql[first:end]

    def _calendar_length(self) -> Length | None:
        """So many days, weeks, months, quarters or years, and nothing else beside them; None if it is no such text."""
        self._match(TokenType.INTERVAL)
        if not self._match_set((TokenType.NUMBER, TokenType.STRING)):
            return None
        number, _, word = self._prev.text.strip().partition(" ")
        if not word and self._curr and self._curr.token_type != TokenType.IDENTIFIER:
            word = self._curr.text
            self._advance()
        known = _CALENDAR_UNITS.get(word.strip().lower().removesuffix("s"))
        if known is None or not number.isdecimal() or int(number) == 0 or self._at_bare_interval():
            return None
        unit, times = known
        count = int(number) * times
        days = {"day": 1, "week": 7, "month": 31}[unit]
        self._countable(self._prev, count * days * UNITS_US["day"])
        return Length(0 if unit == "month" else count * days * UNITS_US["day"], unit, count)

    def _fixed(self, length: Length, start: Token) -> int:
        """Of a length that the calendar does not make."""
        if length.unit == "month":
            self.fail("a month has no fixed length", self._from(start), hint="write the interval in days")
        return length.us

    def _interval_text(self, start: Token, text: str) -> int:
        # INTERVAL '30' SECOND: the text is the number, the unit follows it.
        if text.strip().lstrip("+-").replace(".", "", 1).isdecimal():
            return self._countable(start, self._scaled(start, text.strip()))
        try:
            return parse_interval(text)
        except ValueError as error:
            self.fail(str(error), self._from(start))

    def _countable(self, start: Token, us: int) -> int:
        if abs(us) >= FOREVER_US:
            message = "this interval is longer than the system can count, which is about 70 000 years"
            self.fail(message, self._from(start), hint="to keep every row of a stream, write [UNBOUNDED] after it")
        return us

    def _scaled(self, start: Token, number: str) -> int:
        unit = self._curr
        size = unit_us(unit.text) if unit and unit.token_type != TokenType.STRING else None
        # These have no size either, but the answer should say why.
        if unit and unit.text.upper() in _MONTHS_OF:
            self.fail(f"a {unit.text.lower().rstrip('s')} has no fixed length", hint="write the interval in days")
        if size is None:
            self.fail(
                f"{number} needs a unit of time, found {self._found()}", hint=f"write for example {number} SECONDS"
            )
        self._advance()
        try:
            return scale_to_us(number, size)
        except ValueError as error:
            self.fail(f"{error}; an interval is a whole number of microseconds", self._from(start))

    # -- window constraints ---------------------------------------------------------------------------------

    def _at_constraint(self) -> bool:
        if not self._curr or self._curr.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            return False
        word = self._curr.text.upper()
        if word not in ("WINDOW", "DWINDOW"):
            return False
        # A column may be called window: only what follows tells.
        if self._next.token_type == TokenType.L_PAREN:
            return not self._at_text_inside()
        return self._next.token_type == TokenType.EQ or self._next.text.upper() == "PATH"

    def _at_text_inside(self) -> bool:
        """Whether it is Spark's window(ts, '10 minutes'), which says how long windows are."""
        inside = takewhile(lambda token: token.token_type != TokenType.R_PAREN, self._tokens[self._index + 2 :])
        return any(token.token_type == TokenType.STRING for token in inside)

    def _constraint(self) -> Constraint:
        start = self._curr
        kind: ConstraintKind = "directed" if start.text.upper() == "DWINDOW" else "all"
        self._advance()
        if kind == "all" and self._match_text_seq("PATH"):
            kind = "path"
        elif kind == "all" and self._curr.token_type == TokenType.L_PAREN:
            kind = "pair"
        streams = () if kind == "all" else self._constrained()
        if not self._match(TokenType.EQ):
            self.fail(f"expected = and an interval, found {self._found()}", hint="write WINDOW (A, B) = 5 SECONDS")
        sizes = self._interval_list() if kind == "path" else (self._interval(),)
        return Constraint(kind, streams, sizes, self._from(start))

    def _constrained(self) -> tuple[Name, ...]:
        try:
            return self._names("a stream of FROM")
        except TextError as error:
            hint = "WINDOW (a, b) = 5 SECONDS is about two streams; the window of one is a [RANGE 5 SECONDS]"
            # The same mistake with another hint: most who name one stream here want its window.
            self.fail(error.message, error.span, hint=hint)

    def _interval_list(self) -> tuple[int, ...]:
        if self._curr.token_type != TokenType.L_PAREN:
            return (self._interval(),)
        self._open("(")
        sizes = [self._interval()]
        while self._match(TokenType.COMMA):
            sizes.append(self._interval())
        self._close(")")
        return tuple(sizes)

    # -- names and punctuation ------------------------------------------------------------------------------

    def _names(self, what: str) -> tuple[Name, ...]:
        """`(a, b, …)`"""
        self._open("(")
        names = [self._name(what)]
        while self._match(TokenType.COMMA):
            names.append(self._name(what))
        self._close(")")
        return tuple(names)

    def _at_name(self) -> bool:
        token = self._curr
        if not token or token.token_type == TokenType.STRING:
            return False
        return token.token_type == TokenType.IDENTIFIER or (
            token.text.isidentifier() and token.text.upper() not in RESERVED
        )

    def _name(self, what: str) -> Name:
        if not self._at_name():
            self.fail(f"expected {what}, found {self._found()}", hint=self._name_hint())
        self._advance()
        return Name(self._prev.text, self._span(self._prev))

    def _name_hint(self) -> str | None:
        """How what was found could be a name, if that may have been meant."""
        if self._curr.token_type == TokenType.STRING:
            return f'a name stands in double quotes: "{self._curr.text}"'
        reserved = slips.is_word(self._curr) and self._curr.text.upper() in RESERVED
        return slips.quote(self._curr.text) if reserved and not self._after_comma_or_from() else None

    def _after_comma_or_from(self) -> bool:
        """Whether a word such as WHERE follows on a list that breaks off."""
        return self._prev.token_type in (TokenType.COMMA, TokenType.FROM) and self._curr.text.upper() in slips.CLAUSES

    def _open(self, mark: str) -> None:
        self._punctuation(mark, {"(": TokenType.L_PAREN, "[": TokenType.L_BRACKET}[mark])

    def _close(self, mark: str) -> None:
        self._punctuation(mark, {")": TokenType.R_PAREN, "]": TokenType.R_BRACKET}[mark])

    def _punctuation(self, mark: str, token_type: TokenType) -> None:
        if not self._match(token_type):
            # Only a slip that lies before this token explains why the mark is missing.
            slip = slips.unexpected(self._prev, self._curr, self._next) if self._curr else None
            if slip is not None and slip.at is not self._curr:
                self.fail(slip.message, self._span(slip.at), slip.hint)
            self.fail(f"expected {mark}, found {self._found()}")


class Watersmeet(Dialect):
    """Names are case-insensitive; quotes are double."""

    class Tokenizer(tokens.Tokenizer):
        # No statement swallows the rest of the text, and /*+ … */ is a plain comment.
        COMMANDS: ClassVar[set[TokenType]] = set()
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{word: kind for word, kind in tokens.Tokenizer.KEYWORDS.items() if word != "/*+"},
            "//": TokenType.DIV,
            "**": TokenType.DSTAR,
        }

    Parser = ExpressionParser


def _among_rows(node: exp.Expr | None) -> exp.Expr | None:
    """`x = ANY (query)` is IN, and `x <> ALL (query)` NOT IN."""
    match node:
        case exp.EQ(this=value, expression=exp.Any(this=Subquery() as query)):
            made: exp.Expr = exp.In(this=value, expressions=[query])
        case exp.NEQ(this=value, expression=exp.All(this=Subquery() as query)):
            made = exp.Not(this=exp.In(this=value, expressions=[query]))
        case _:
            return node
    for part in (made, made.this):
        if isinstance(part, exp.In | exp.Not):
            part.meta.update(node.meta)
    return made
