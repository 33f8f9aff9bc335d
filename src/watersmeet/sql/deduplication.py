"""DEDUPLICATE in FROM: of a stream only the first rows of keys."""

from __future__ import annotations

from sqlglot import TokenType

from watersmeet.sql.syntax import FirstRows, Name
from watersmeet.sql.window_functions import WindowFunctionParser

_FORM = "DEDUPLICATE(a, 10 MINUTES PARTITION BY k): rows of one k within 10 minutes of one that was given are left out"


class DeduplicationParser(WindowFunctionParser):
    def _deduplication(self) -> tuple[Name, FirstRows] | None:
        """`DEDUPLICATE(s, 10 MINUTES PARTITION BY k)`, or with `TABLE s` and `DESCRIPTOR(ts)` as windows have them."""
        if not self._at_call("DEDUPLICATE"):
            return None
        start = self._curr
        self._advance(2)
        if self._curr.token_type == TokenType.L_PAREN:
            self.fail(
                "DEDUPLICATE goes over a stream that is declared, as its rows arrive",
                hint="write it inside the query: (SELECT … FROM DEDUPLICATE(a, 10 MINUTES PARTITION BY k))",
            )
        relation, keys = self._windowed_relation()
        time = self._descriptor()
        if not self._match(TokenType.COMMA):
            self.fail(f"DEDUPLICATE needs an interval, found {self._found()}", hint=f"write {_FORM}")
        if self._curr.token_type not in (TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL):
            self.fail(f"expected an interval, found {self._found()}", hint=f"write {_FORM}")
        within = self._interval()
        if within < 0:
            self.fail("the interval of DEDUPLICATE is negative", self._from(start), hint=f"write {_FORM}")
        if self._match(TokenType.PARTITION_BY):
            keys = self._partition_columns()
        self._close(")")
        assert isinstance(relation, Name)
        return relation, FirstRows(within, keys, time, self._from(start))
