"""Scripts and queries as syntax, with every mistake reported as our own error."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from watersmeet.errors import ParseError
from watersmeet.sql.dialect import TextError, Watersmeet
from watersmeet.sql.parameters import Parameters, with_values
from watersmeet.sql.statements import StatementParser
from watersmeet.sql.syntax import CreateSink, Explain, QuerySyntax, Span, Statement, span_of

__all__ = ["parse_query", "parse_question", "parse_script", "single_question", "span_of"]
_LONGEST_NUMBER = 1_000


def parse_script(text: str, parameters: Parameters | None = None) -> list[Statement]:
    """The statements of a script, separated by semicolons; spans are offsets into `text`. `parameters` are the values
    of its `:name`, `$name` and `?`."""
    if not isinstance(text, str):
        raise ParseError(f"a query is a text, not {'None' if text is None else f'a {type(text).__name__}'}")
    tokens, constants = with_values(_tokens(text), text, parameters)
    parser = StatementParser(dialect=Watersmeet)
    parser.constants = constants
    try:
        # sqlglot cuts the tokens at semicolons and calls this for each part; what it leaves over goes to raise_error.
        parsed = parser._parse(StatementParser._statement, tokens, text)  # type: ignore[arg-type]
    except TextError as fault:
        raise fault.kind(fault.message, hint=fault.hint, sql=text, span=fault.span) from None
    except SqlglotError as error:
        raise ParseError(f"the text cannot be read: {_first_line(error)}", sql=text, span=(0, len(text))) from None
    except RecursionError:
        raise ParseError("the text is nested too deeply", sql=text, span=(0, 1)) from None
    return [statement for statement in parsed if statement is not None]  # type: ignore[misc]


def parse_query(text: str) -> QuerySyntax:
    """The one query a text consists of."""
    query = parse_question(text)
    if isinstance(query, Explain):
        raise ParseError("expected a query, found EXPLAIN", sql=text, span=query.span, hint="leave EXPLAIN out")
    return query


def parse_question(text: str) -> QuerySyntax | Explain:
    """The one query a text consists of, or what it says to EXPLAIN."""
    statements = parse_script(text)
    if not statements:
        raise ParseError("the text is empty; write a query such as SELECT * FROM a", sql=text, span=(0, 1))
    if len(statements) > 1:
        raise ParseError(
            "expected one query, found several statements",
            sql=text,
            span=statements[1].span,
            hint="give them one at a time; `watersmeet run FILE.sql` runs a script",
        )
    query = statements[0]
    if not isinstance(query, QuerySyntax | Explain):
        raise ParseError(
            "expected a query, found a statement of a script",
            sql=text,
            span=query.span,
            hint="run CREATE and SET statements from a script",
        )
    return query


def single_question(statements: Sequence[Statement], text: str) -> QuerySyntax | Explain | None:
    """The one query among statements that else only declare; None if there is none."""
    if not statements:
        raise ParseError("the text is empty; write a query such as SELECT * FROM a", sql=text, span=(0, 1))
    sink = next((one for one in statements if isinstance(one, CreateSink) and one.query is not None), None)
    if sink is not None:
        raise ParseError(
            "expected a query, found CREATE SINK, which is there to be run",
            sql=text,
            span=sink.span,
            hint="session.run(text) or session.run_file(path) runs a script and writes into its sinks",
        )
    asked = [one for one in statements if isinstance(one, QuerySyntax | Explain)]
    if len(asked) > 1:
        raise ParseError(
            "expected one query, found several statements",
            sql=text,
            span=asked[1].span,
            hint="give them one at a time; session.run(text) or `watersmeet run FILE.sql` runs a script",
        )
    return asked[0] if asked else None


def _tokens(text: str) -> list[Token]:
    try:
        tokens = Watersmeet().tokenize(text)
    except SqlglotError as error:
        problem, hint = _token_problem(error, text)
        raise ParseError(problem, sql=text, span=_last_quote(text), hint=hint) from None
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > _LONGEST_NUMBER:
            raise ParseError(
                f"a number of {len(token.text)} digits is longer than any type holds",
                sql=text,
                span=(token.start, token.end + 1),
            )
    return tokens


def _token_problem(error: SqlglotError, text: str) -> tuple[str, str | None]:
    message = _first_line(error.__cause__ or error)
    doubled = "a quote inside a text is written twice: 'it''s'"
    if message.startswith("Missing "):
        return f"a quote is never closed: {message.split()[1]} is missing", doubled
    # Other messages of the tokenizer do not say it, but a text that is never closed leaves an odd quote.
    odd = text.count("'") % 2
    return ("a quote is never closed", doubled) if odd else ("the text cannot be split into words", None)


def _last_quote(text: str) -> Span:
    """An unclosed string begins at one of the quotes; without a better answer, the last."""
    position = max(text.rfind("'"), text.rfind('"'), 0)
    return (position, position + 1)


def _first_line(error: BaseException) -> str:
    return str(error).split("\n")[0].rstrip(".")
