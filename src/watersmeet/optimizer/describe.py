"""A join as the cost models see it: streams with rates and windows, what they are equal on, other predicates, bounds.

Every number is the measured one if there is one, else the declared one, else an assumption that favours nothing: all
streams as fast as those whose rate is known, and each key about once in a window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Statistics, Stream, Table
from watersmeet.model.time import FOREVER_US, UNITS_US
from watersmeet.model.windows import RowsWindow
from watersmeet.optimizer.classify_predicates import is_implied
from watersmeet.optimizer.close_equalities import equal_groups
from watersmeet.optimizer.cost.inputs import JoinGraph, Key, StreamRate, Theta
from watersmeet.optimizer.place_conditions import Condition
from watersmeet.optimizer.prices import price_of
from watersmeet.physical.estimate import Known
from watersmeet.physical.strategy import Code, Comparison, InputStatistics, JoinStrategy, Values
from watersmeet.plan.expressions import Call, Column, Expression, streams_of, uses_event_time
from watersmeet.plan.nodes import Input

ASSUMED_RATE = 100.0
ASSUMED_TABLE_ROWS = 1000.0
# Of pairs of rows, how many pass a comparison that nothing is known of.
ASSUMED_PASSING = {"lt": 1 / 3, "le": 1 / 3, "gt": 1 / 3, "ge": 1 / 3, "ne": 0.99}
ASSUMED_IN_INTERVAL = ASSUMED_EQUAL = 0.1
ASSUMED_TRUE = 1 / 3
MEASURED: Known = "measured"
EVERY_VALUE_APART = 1 << 30  # buckets of a hash index that grows with its rows
# A share taken from 30 matches is off by about a fifth.
ENOUGH_MATCHES = 30.0  # in a sample, for the share of matches to be believed
# Σp²·n, which is 1 where all values come equally often.
NEARLY_EVEN = 1.3
SAMPLED_PAIRS = 256


@dataclass(frozen=True)
class Description:
    """The numbers of one join, worked out as they are asked for."""

    strategy: JoinStrategy

    @cached_property
    def graph(self) -> JoinGraph:
        """For the engine's own join, whose hash indexes keep every value apart."""
        return self.with_buckets(dict.fromkeys(self.aliases, EVERY_VALUE_APART))

    def with_buckets(self, buckets: Mapping[str, int]) -> JoinGraph:
        """For hash tables of so many buckets; streams that are not named have none."""
        streams = tuple(
            StreamRate(alias, self._density(alias), self._span_s(alias), buckets=buckets.get(alias, 1))
            for alias in self.aliases
        )
        return JoinGraph(streams, self._keys, self._thetas, self._bounds)

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        return tuple(one.alias for one in self.strategy.join.inputs)

    @cached_property
    def known(self) -> dict[str, Known]:
        return {alias: self._how_known(alias) for alias in self.aliases}

    def _how_known(self, alias: str) -> Known:
        if alias in self._measured:
            return "measured"
        one = self._input(alias)
        said = self._declared(one)
        return "assumed" if (said.rows if one.is_table else said.rows_per_second) is None else "declared"

    @cached_property
    def rates(self) -> dict[str, float]:
        """Rows a second that arrive; static tables have none."""
        said = {one.alias: self._known_rate(one) for one in self.strategy.join.streams}
        known = [rate for rate in said.values() if rate is not None]
        # Known streams stand for the others, so that nothing is decided by a number that was made up.
        usual = sum(known) / len(known) if known else ASSUMED_RATE
        return {alias: usual if rate is None else rate for alias, rate in said.items()}

    @cached_property
    def rows(self) -> dict[str, float]:
        """Rows kept of each input."""
        found = {one.alias: self._rows(one, self.rates.get(one.alias)) for one in self.strategy.join.inputs}
        # Of tables, and of windows without an end, that nobody has counted.
        return {alias: ASSUMED_TABLE_ROWS if rows is None else max(rows, 0.0) for alias, rows in found.items()}

    @cached_property
    def known_rows(self) -> dict[str, float | None]:
        """The same without assumptions: None where neither a rate nor a count is known."""
        return {one.alias: self._rows(one, self._known_rate(one)) for one in self.strategy.join.inputs}

    def distinct(self, code: Code) -> float:
        """How many values a key has."""
        measured = self._measured.get(code.stream)
        if measured is not None and code in measured.distinct:
            return max(1.0, measured.distinct[code])
        if self.is_unique(code):
            return max(1.0, self.rows[code.stream])
        said = self._said_distinct(code)
        # Each value once in what is kept: a key, until something else is known.
        return max(1.0, self.rows[code.stream]) if said is None else said

    def is_unique(self, code: Code) -> bool:
        """Whether each of its values is declared to come once."""
        column = _column(code.expression)
        return column is not None and column.name in self._declared(self._input(code.stream)).unique

    # ---- rates and rows ----

    @property
    def _measured(self) -> Mapping[str, InputStatistics]:
        return self.strategy.measured or {}

    def _input(self, alias: str) -> Input:
        return self.strategy.join.input(alias)

    def _declared(self, one: Input) -> Statistics:
        return one.relation.statistics if isinstance(one.relation, Stream | Table) else Statistics()

    def _known_rate(self, one: Input) -> float | None:
        if one.alias in self._measured:
            return self._measured[one.alias].rate
        return self._declared(one).rows_per_second

    def _rows(self, one: Input, rate: float | None) -> float | None:
        """Rate times retention, or a count: of a ROWS window, or of all the rows there are."""
        if one.alias in self._measured:
            return self._measured[one.alias].rows
        said = self._declared(one).rows
        if one.is_table:
            return said
        # With PARTITION BY there are so many for each value, and nobody says how many values there are.
        if isinstance(one.window, RowsWindow) and not one.window.partition_by:
            return one.window.count
        span_us = self.strategy.join.kept_us(one.alias)
        if span_us >= FOREVER_US:
            return said
        if rate is None:
            return None
        expected = rate * span_us / UNITS_US["second"]
        # A file of so many rows never fills a window that is longer than it.
        return expected if said is None else min(expected, said)

    def _span_s(self, alias: str) -> float:
        """The time that the rows kept of an input lie in; a static table's are all at one place."""
        one = self._input(alias)
        if one.is_table:
            return 1.0
        span_us = self.strategy.join.kept_us(alias)
        if span_us < FOREVER_US and not isinstance(one.window, RowsWindow):
            return max(span_us, 1) / UNITS_US["second"]
        # ROWS windows and unbounded ones have no length: it is the time in which so many rows come.
        return max(self.rows[alias] / self.rates[alias], 1e-6) if self.rates[alias] else 1.0

    def _density(self, alias: str) -> float:
        """Rows kept for each second of that time: what a search meets, however fast rows arrive just now."""
        return self.rows[alias] / self._span_s(alias)

    @cached_property
    def _bounds(self) -> dict[tuple[str, str], float]:
        windows = self.strategy.join.windows
        limits = {
            (u, v): windows.limits[i][j]
            for i, u in enumerate(windows.streams)
            for j, v in enumerate(windows.streams)
            if i != j
        }
        return {pair: limit / UNITS_US["second"] for pair, limit in limits.items() if limit < FOREVER_US}

    # ---- keys ----

    @cached_property
    def _keys(self) -> tuple[Key, ...]:
        return tuple(self._key(codes) for codes in map(_one_for_each, equal_groups(self.strategy.equalities)))

    def _key(self, codes: Mapping[str, Code]) -> Key:
        frequencies = self._frequencies(codes)
        return Key({alias: self.distinct(code) for alias, code in codes.items()}, frequencies)

    def key_shares(self) -> list[tuple[Mapping[str, Code], Mapping[str, Sequence[float]]]]:
        """For each key of the join its code in every input that has it, and how often each of its values comes, if
        samples tell; values stand in the same order for all inputs."""
        groups = map(_one_for_each, equal_groups(self.strategy.equalities))
        return [(codes, self._frequencies(codes)) for codes in groups]

    def sample(self, code: Code) -> Values | None:
        """Some values of a code, for all codes of an input of the same rows."""
        return self._sample(code)

    def _frequencies(self, codes: Mapping[str, Code]) -> dict[str, Sequence[float]]:
        """How often each value comes, from samples; nothing if they have too few values in common to tell."""
        samples = [self._sample(code) for code in codes.values()]
        if any(sample is None or not sample.size for sample in samples):
            return {}
        drawn = [sample for sample in samples if sample is not None]
        values, where = np.unique(np.concatenate(drawn), return_inverse=True)
        ends = np.cumsum([sample.size for sample in drawn])
        counts = [np.bincount(part, minlength=values.size) for part in np.split(where, ends[:-1])]
        # As many combinations as the samples themselves make. Of few the shares are chance.
        if float(np.prod(counts, axis=0, dtype=np.float64).sum()) < ENOUGH_MATCHES:
            return {}
        shares = {alias: count / count.sum() for alias, count in zip(codes, counts, strict=True)}
        # The number of values comes from all rows, so it is better than a sample where it says as much.
        return {} if all(map(_is_even, shares.values())) else shares

    def _sample(self, code: Code) -> Values | None:
        measured = self._measured.get(code.stream)
        return None if measured is None else measured.samples.get(code)

    def _said_distinct(self, code: Code) -> float | None:
        """What is declared of this column, or of one that it must equal."""
        column = _column(code.expression)
        said = self._declared(self._input(code.stream)).distinct
        if column is not None and column.name in said:
            return said[column.name]
        # Values that must be equal are the same values, so another stream's count will do.
        others = next((group for group in equal_groups(self.strategy.equalities) if code in group), [])
        counts = []
        for other in others:
            named = _column(other.expression)
            if named is not None and other != code:
                counts.append(self._declared(self._input(other.stream)).distinct.get(named.name))
        known = [count for count in counts if count is not None]
        if not known:
            # What is equal to a unique column refers to its rows, as a foreign key does: it has no more values.
            referred = [self.rows[other.stream] for other in others if other != code and self.is_unique(other)]
            known = [max(1.0, min(*referred, self.rows[code.stream]))] if referred else []
        return max(known) if known else None

    # ---- comparisons ----

    @cached_property
    def _thetas(self) -> tuple[Theta, ...]:
        pairs: dict[frozenset[str], list[Comparison]] = defaultdict(list)
        for comparison in self.strategy.comparisons:
            pairs[frozenset((comparison.own.stream, comparison.bound.stream))].append(comparison)
        return tuple(
            # Every comparison is there twice, once from each side.
            Theta(streams, self._passing([c for c in found if c.own.stream == min(streams)]))
            for streams, found in pairs.items()
        )

    def _passing(self, comparisons: Sequence[Comparison]) -> float:
        """The share of pairs of rows that pass all comparisons between two inputs."""
        measured = self._measured_passing(comparisons)
        if measured is not None:
            return measured
        share = 1.0
        for own in dict.fromkeys(c.own for c in comparisons):
            operators = {c.operator for c in comparisons if c.own == own}
            both_sides = operators & {"lt", "le"} and operators & {"gt", "ge"}
            share *= ASSUMED_IN_INTERVAL if both_sides else min(ASSUMED_PASSING[o] for o in operators)
        return share

    def _measured_passing(self, comparisons: Sequence[Comparison]) -> float | None:
        passing: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None = None
        for c in comparisons:
            own, bound = self._sample(c.own), self._sample(c.bound)
            if own is None or bound is None or not own.size or not bound.size:
                return None
            left, right = _spread(own)[:, None], _spread(bound)[None, :]
            test = COMPARE[c.operator](left, right)
            passing = test if passing is None else passing & test
        # Half a match more, so that none in the sample is not taken for none at all.
        return None if passing is None else float((passing.sum() + 0.5) / (passing.size + 1))

    # ---- conditions on combinations ----

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """What is tested on combinations, in the order in which it is written."""
        return tuple(map(self._condition, self.strategy.residuals))

    def _condition(self, expression: Expression) -> Condition:
        streams = streams_of(expression)
        bits = sum(1 << place for place, alias in enumerate(self.aliases) if alias in streams)
        priced_ns, price_known = price_of(expression)
        seen = next((one.tests[expression] for one in self._measured.values() if expression in one.tests), None)
        # The event time of a combination is known when it is whole.
        early = self.strategy.tests_early and len(streams) > 1 and not uses_event_time(expression)
        if is_implied(expression):
            return Condition(expression, bits, 1.0, priced_ns, "assumed", price_known, early=False)
        function = expression.function if isinstance(expression, Call) else ""
        passing = ASSUMED_PASSING.get(function, ASSUMED_EQUAL if function == "eq" else ASSUMED_TRUE)
        if seen is None:
            return Condition(expression, bits, passing, priced_ns, "assumed", price_known, early)
        ns, known = (priced_ns, price_known) if seen.ns is None else (seen.ns, MEASURED)
        return Condition(expression, bits, seen.passing, ns, "measured", known, early)


COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "ne": np.not_equal}


def _is_even(shares: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
    """Whether all values come about as often; then their number says it all."""
    return float((shares**2).sum()) * int(np.count_nonzero(shares)) < NEARLY_EVEN


def _spread(sample: Values) -> Values:
    """So few rows of a sample that all pairs can be tried; always the same rows for samples of one input."""
    # By the size alone, as codes of one input are of the same rows.
    return sample[:: max(1, sample.size // SAMPLED_PAIRS)]


def _one_for_each(group: Sequence[Code]) -> dict[str, Code]:
    codes: dict[str, Code] = {}
    for code in group:
        codes.setdefault(code.stream, code)
    return codes


def _column(expression: Expression) -> Column | None:
    """The column behind casts that only widen."""
    while isinstance(expression, Call) and expression.function == "cast":
        expression = expression.args[0]
    return expression if isinstance(expression, Column) else None
