"""A route along which combinations are tested on their way: it is walked in stages, with a test between two of them.

A stage is a walk like any other. The next one goes on with the combinations that have passed: each takes the place of
a new row, and the rows that it has found already are given, so that time and codes are compared as if the walk had
never stopped. What is found is found in the same order, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.model.time import Times
from watersmeet.model.windows import ClosedWindows
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.program import CodePositions, Program, Stores, Table
from watersmeet.operators.kernels import walk as kernel
from watersmeet.operators.kernels.memory import address
from watersmeet.physical.strategy import Code, Route, Step
from watersmeet.plan.expressions import Expression

# Which of some combinations pass, and which of the conditions could not be tested on them.
Test = Callable[[Sequence[str], Codes, Rows, Sequence[Expression]], tuple[Codes, list[Expression]]]


class GoingOn(Program):
    """Walks on from combinations of the first inputs of a route."""

    def __init__(
        self, route: Route, given: int, windows: ClosedWindows, positions: CodePositions, *, counted: bool
    ) -> None:
        found = tuple(Step(step.stream, "scan") for step in route.steps[:given])
        super().__init__(replace(route, steps=(*found, *route.steps[given:])), windows, positions, counted=counted)
        self.is_star = False  # those take new rows
        self._given = given
        self.steps[:given, kernel.ACCESS] = kernel.GIVEN

    def go_on(
        self,
        found: Codes,
        times: Times,
        deaths: Times | None,
        codes: Mapping[Code, Codes],
        stores: Stores,
        capacity: int,
    ) -> Iterator[Table]:
        """The same as `run`, for the combinations found so far in the place of new rows; those have these times, deaths
        and codes."""
        rows = np.ascontiguousarray(found[1:])  # kept until the walk has ended, as its address is written down
        self.steps[: self._given, kernel.HEADS] = [address(one) for one in rows]
        origins = found[0]
        dying = None if deaths is None else deaths[origins]
        used = {code for _, code, _ in (*self.equals, *self.unequals)}
        used |= {c.bound for _, comparisons in self.ranges for c in comparisons}
        probing = {code: codes[code][origins] for code in used if code.stream == self.route.origin}
        for numbers in self.run(times[origins], dying, probing, stores, capacity):
            numbers[0] = origins[numbers[0]]
            yield numbers


@dataclass(frozen=True)
class Stage:
    """A part of a route, and the conditions on what was found at its end."""

    program: Program
    then: tuple[Expression, ...]


class StagedProgram(Program):
    def __init__(
        self,
        route: Route,
        windows: ClosedWindows,
        positions: CodePositions,
        residuals: Sequence[Expression],
        test: Test,
        *,
        counted: bool,
    ) -> None:
        super().__init__(route, windows, positions, residuals, counted=counted)
        self._test = test
        early = {one for step in route.steps for one in step.then}
        self._late = tuple(one for one in residuals if one not in early)
        ends = [d for d, step in enumerate(route.steps, 1) if step.then and d < len(route.steps)]
        self._stages: list[Stage] = []
        for begin, end in zip((0, *ends), (*ends, len(route.steps)), strict=True):
            part = replace(route, steps=route.steps[:end])
            program = (
                GoingOn(part, begin, windows, positions, counted=counted)
                if begin
                else Program(part, windows, positions, counted=counted)
            )
            self._stages.append(Stage(program, route.steps[end - 1].then if end < len(route.steps) else ()))

    def found(self, admitted: Admitted, stores: Stores, capacity: int) -> Iterator[Table]:
        yield from self._from_stage(0, np.empty((0, 0), np.int64), admitted, stores, capacity, [])

    def _from_stage(
        self,
        place: int,
        found: Codes,
        admitted: Admitted,
        stores: Stores,
        capacity: int,
        untested: list[Expression],
    ) -> Iterator[Table]:
        program, then = self._stages[place].program, self._stages[place].then
        times, deaths = admitted.rows.times, None if admitted.deaths is None else admitted.deaths.times
        if isinstance(program, GoingOn):
            pieces = program.go_on(found, times, deaths, admitted.codes, stores, capacity)
        else:
            pieces = program.run(times, deaths, admitted.codes, stores, capacity)
        for numbers in pieces:
            if place + 1 == len(self._stages):
                late = {*self._late, *untested}
                self.untested = tuple(one for one in self.residuals if one in late)
                yield numbers
                continue
            passed, failed = self._test(program.visits, numbers, admitted.rows, then)
            if passed.shape[1]:
                yield from self._from_stage(place + 1, passed, admitted, stores, capacity, [*untested, *failed])
            else:  # whoever takes them may stop here
                yield np.empty((len(self.visits), 0), np.int64)
