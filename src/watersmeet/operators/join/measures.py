"""What a join learns of its inputs as they flow: rates, numbers of values, samples. Cheap, and of recent rows only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from watersmeet.model.time import BEGINNING_US, UNITS_US, Times
from watersmeet.operators.codes import Codes
from watersmeet.operators.contract import Rows
from watersmeet.operators.kernels.sketch import REGISTERS, estimated_values, note_values
from watersmeet.physical.strategy import Code, ConditionStatistics, InputStatistics, JoinStatistics
from watersmeet.plan.expressions import Expression, streams_of

USUAL_HORIZON_US = 60_000_000
SAMPLE_ROWS = 2048
SAMPLED_AT_ONCE = 512
LOOKED_AT_TOGETHER = 256
Encode = Callable[[Rows], Mapping[Code, Codes]]
ENOUGH_TESTS = 64  # of a condition, for the share that passes to be believed
RECENT_TESTS = 1 << 20
NOTED_AT_ONCE = 4096  # rows of a batch, at equal distances, are enough to tell how many values there are


class Measures:
    """Of all inputs of one join. `horizons_us` says how long the rows of a stream matter, if that is a matter of time;
    older ones fade."""

    STATE = ("_inputs", "_conditions")
    GROWS = True

    def __init__(
        self,
        codes: Mapping[str, Sequence[Code]],
        horizons_us: Mapping[str, int],
        conditions: Sequence[Expression] = (),
    ) -> None:
        self._conditions = [Condition() for _ in conditions]
        self._places = {one: place for place, one in enumerate(conditions)}
        self._inputs = {alias: InputMeasures(own, horizons_us.get(alias)) for alias, own in codes.items()}
        self.rows_seen = 0

    def loaded(self) -> None:
        self.rows_seen = sum(one.rows_seen for one in self._inputs.values())

    def tell_of_all_rows(self) -> None:
        """Rates are means over all rows that are seen from now on: those of a sample, which has an end."""
        for one in self._inputs.values():
            one.rate_fades = False
        for condition in self._conditions:
            condition.timed = True

    def saw(self, alias: str, times: Times, codes: Mapping[Code, Codes]) -> None:
        self.rows_seen += times.size
        self._inputs[alias].saw(times, codes)

    def saw_few(self, alias: str, rows: Rows, encode: Encode) -> None:
        self.rows_seen += rows.times.size
        self._inputs[alias].saw_few(rows, encode)

    def tested(self, condition: Expression, count: int, passed: int, seconds: float) -> None:
        self._conditions[self._places[condition]].saw(count, passed, seconds)

    def statistics(self, rows_kept: Mapping[str, int]) -> JoinStatistics:
        return {
            alias: one.statistics(rows_kept.get(alias, 0), self._tests_of(alias)) for alias, one in self._inputs.items()
        }

    def _tests_of(self, alias: str) -> dict[Expression, ConditionStatistics]:
        """Of the conditions of which an input is the last in FROM."""
        found = ((one, self._conditions[place].statistics()) for one, place in self._places.items())
        return {one: told for one, told in found if told is not None and self._last_of(one) == alias}

    def _last_of(self, condition: Expression) -> str | None:
        streams = streams_of(condition)
        return next((alias for alias in reversed(self._inputs) if alias in streams), None)


class Condition:
    """How many combinations were tested on a condition, and passed; lately, as what is older counts half again and
    again. The time that it took is told of a sample only: routes that follow a clock would not be the same when a batch
    is repeated."""

    STATE = ("count", "passed")

    def __init__(self) -> None:
        self.count = self.passed = 0
        self.seconds = 0.0
        self.timed = False

    def saw(self, count: int, passed: int, seconds: float) -> None:
        if self.count > RECENT_TESTS:
            self.count, self.passed, self.seconds = self.count // 2, self.passed // 2, self.seconds / 2
        self.count += count
        self.passed += passed
        self.seconds += seconds

    def statistics(self) -> ConditionStatistics | None:
        if self.count < ENOUGH_TESTS:
            return None
        # Half a combination more, so that none that passed is not taken for none at all.
        passing = (self.passed + 0.5) / (self.count + 1)
        return ConditionStatistics(passing, 1e9 * self.seconds / self.count if self.timed else None)


class InputMeasures:
    """Of one input. Rows kept by their number, or of a static table, have no horizon of their own."""

    STATE = ("rows_seen", "values", "sample", "sampled", "rows", "seconds", "newest_us")

    def __init__(self, codes: Sequence[Code], horizon_us: int | None) -> None:
        self.kept_by_time = horizon_us is not None
        self.horizon_us = horizon_us or USUAL_HORIZON_US
        self.rows_seen = 0
        self.values = {code: RecentValues(self.horizon_us) for code in codes}
        self.sample = {code: np.empty(SAMPLE_ROWS, np.int64) for code in codes}
        self.sampled = 0
        self.rows, self.seconds = 0.0, 0.0
        self.rate_fades = True
        self.newest_us = BEGINNING_US
        # Rows that were not looked at yet: who saves this and goes on elsewhere does without these few.
        self._waiting: list[tuple[Times, list[Codes]]] = []
        self._waiting_rows = 0
        self._not_encoded: list[Rows] = []
        self._encode: Encode = lambda rows: {}

    def saw(self, times: Times, codes: Mapping[Code, Codes]) -> None:
        """A handful of rows waits for more: looking at rows costs by the batch."""
        if not times.size:
            return
        self.rows_seen += times.size
        if times.size >= LOOKED_AT_TOGETHER:
            self._look_at_waiting()
            self._look_at(times, codes)
            return
        self._waiting.append((times, [codes[code] for code in self.values]))
        self._waiting_rows += times.size
        if self._waiting_rows >= LOOKED_AT_TOGETHER:
            self._look_at_waiting()

    def saw_few(self, rows: Rows, encode: Encode) -> None:
        """The same for a handful of rows whose codes nobody has made yet."""
        count = rows.times.size
        self.rows_seen += count
        self._encode = encode
        self._not_encoded.append(rows)
        self._waiting_rows += count
        if self._waiting_rows >= LOOKED_AT_TOGETHER:
            self._look_at_waiting()

    def _look_at_waiting(self) -> None:
        if self._not_encoded:
            rows, self._not_encoded = Rows.together(self._not_encoded), []
            codes = self._encode(rows)
            self._waiting.append((rows.times, [codes[code] for code in self.values]))
        if not self._waiting:
            return
        times = np.concatenate([times for times, _ in self._waiting])
        columns = zip(*(own for _, own in self._waiting), strict=True)
        codes = {code: np.concatenate(parts) for code, parts in zip(self.values, columns, strict=False)}
        self._waiting, self._waiting_rows = [], 0
        self._look_at(times, codes)

    def _look_at(self, times: Times, codes: Mapping[Code, Codes]) -> None:
        newest_us = int(times.max())
        self._tell_rate(times, newest_us)
        if times.size <= NOTED_AT_ONCE:
            noted, count = codes, times.size
        else:
            # The distance is rounded up, so that no more are drawn.
            drawn = np.arange(0, times.size, -(-times.size // NOTED_AT_ONCE))
            noted, count = {code: codes[code][drawn] for code in self.values}, drawn.size
        for code, values in self.values.items():
            values.note(noted[code], newest_us)
        self._sample(noted, count)

    def _tell_rate(self, times: Times, newest_us: int) -> None:
        """Rows and the time they took, both fading with the time that passes."""
        first_us = int(times.min()) if self.newest_us == BEGINNING_US else self.newest_us
        passed_s = max(newest_us - first_us, 0) / UNITS_US["second"]
        horizon_s = self.horizon_us / UNITS_US["second"]
        fading = math.exp(-passed_s / max(horizon_s, 1e-6)) if self.rate_fades else 1.0
        # Of the time that passes, what lies beyond a horizon counts no more than what fades.
        self.seconds = self.seconds * fading + passed_s * (1 + fading) / 2
        self.rows = self.rows * fading + times.size * (1 + fading) / 2
        self.newest_us = max(self.newest_us, newest_us)

    def _sample(self, noted: Mapping[Code, Codes], count: int) -> None:
        """Rows at equal distances, over the oldest of the sample."""
        at = self.sampled % SAMPLE_ROWS
        if count <= SAMPLED_AT_ONCE and at + count <= SAMPLE_ROWS:
            for code, kept in self.sample.items():
                kept[at : at + count] = noted[code]
            self.sampled += count
            return
        drawn = np.arange(0, count, -(-count // SAMPLED_AT_ONCE))
        places = (self.sampled + np.arange(drawn.size)) % SAMPLE_ROWS
        for code, kept in self.sample.items():
            kept[places] = noted[code][drawn]
        self.sampled += drawn.size

    def statistics(
        self, rows_kept: int, tests: Mapping[Expression, ConditionStatistics] | None = None
    ) -> InputStatistics:
        """Of what is kept, rows that ran ahead of the other streams do not count: they will be met later."""
        self._look_at_waiting()
        rate = self.rows / self.seconds if self.seconds > 0 else 0.0
        drawn = min(self.sampled, SAMPLE_ROWS)
        samples = {code: kept[:drawn] for code, kept in self.sample.items()}
        in_horizon = rate * self.horizon_us / UNITS_US["second"]
        rows = min(float(rows_kept), in_horizon) if self.kept_by_time else float(rows_kept)
        distinct = {code: values.domain_size() for code, values in self.values.items()}
        return InputStatistics(rate, rows, distinct, samples, tests or {})


class RecentValues:
    """The values of a code in this horizon and the one before."""

    STATE = ("now", "before", "rows_now", "rows_before", "since_us")

    def __init__(self, horizon_us: int) -> None:
        self.horizon_us = horizon_us
        self.now = np.zeros(REGISTERS, np.uint8)
        self.before = np.zeros(REGISTERS, np.uint8)
        self.rows_now = self.rows_before = 0
        self.since_us = BEGINNING_US

    def note(self, codes: Codes, newest_us: int) -> None:
        if self.since_us == BEGINNING_US:
            self.since_us = newest_us
        elif newest_us - self.since_us > self.horizon_us:
            self.before, self.now = self.now, np.zeros(REGISTERS, np.uint8)
            self.rows_before, self.rows_now, self.since_us = self.rows_now, 0, newest_us
        note_values(codes, self.now)
        self.rows_now += codes.size

    def domain_size(self) -> float:
        """How many values these rows are drawn from, if all are as likely.

        n rows drawn from v values show d = v (1 - (1 - 1/v)^n) of them (H04, Eq. 1); solved for v. Where nearly all
        are different, v is too large to tell, and so large that it makes no difference.
        """
        rows = self.rows_now + self.rows_before
        seen = min(float(estimated_values(np.maximum(self.now, self.before))), float(rows))
        if rows == 0:
            return 1.0
        low, high = max(seen, 1.0), rows * MOST_VALUES_PER_ROW
        if seen >= _shown(high, rows):
            return high
        for _ in range(20):
            # By halving the ratio, as the two ends may be orders apart. The sketch is off by more than what is left.
            middle = math.sqrt(low * high)
            low, high = (middle, high) if _shown(middle, rows) < seen else (low, middle)
        return low


# Of so many values 98 % of the rows show different ones, which the sketch, off by 2 %, cannot tell from all.
MOST_VALUES_PER_ROW = 25.0


def _shown(values: float, rows: float) -> float:
    return values * -math.expm1(rows * math.log1p(-1 / values)) if values > 1 else 1.0
