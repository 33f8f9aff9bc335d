"""Progress is one line: what came in, what came out, how far time has come."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.progress import LineProgress, LiveProgress, TextProgress, brief, describe, progress_on

METRICS = Metrics(rows_in=12_000, late_rows=3, results=450, kept_rows=77, watermark_us=1_000_000)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_last_line_says_rows_results_rate_watermark_and_window() -> None:
    assert describe(METRICS, 2.0) == (
        "12,000 rows in (3 late), 450 results, 6,000 rows/s on average, watermark 1970-01-01 00:00:01, 77 rows kept"
    )
    assert "watermark none yet" in describe(Metrics(), 0.0)


def test_one_is_not_several_and_rows_of_earlier_lives_are_not_of_these_seconds() -> None:
    one = Metrics(rows_in=1, results=1, kept_rows=1, watermark_us=1_000_000)
    told = "1 row in, 1 result, {} rows/s on average, watermark 1970-01-01 00:00:01, 1 row kept"
    assert describe(one, 0.5) == told.format(2)
    assert describe(one, 0.5, rows_before=1) == told.format(0)
    final = Metrics(rows_in=1, results=1, final_rows=1)
    assert "a final answer of 1 row after 1 change," in describe(final, 1.0)


def test_the_line_of_a_long_run_fits_a_terminal() -> None:
    assert brief(METRICS, 6_000) == "12.0k in (3 late), 450 out, now 6,000 rows/s, at 00:00:01, kept 77"
    day = 86_400_000_000
    busy = Metrics(rows_in=987_654_321, late_rows=99_999, results=88_888_888, kept_rows=7_654_321, watermark_us=day)
    assert len(brief(busy, 987_654_321 / 60)) <= 80


def test_lines_come_every_few_seconds() -> None:
    out, now = io.StringIO(), [0.0]
    with LineProgress(out, clock=lambda: now[0]) as progress:
        for second in range(12):
            now[0] = float(second)
            progress.update(METRICS)
    assert len(out.getvalue().splitlines()) == 2


@pytest.mark.parametrize(("every_s", "progress_of"), [(5, LineProgress), (0.2, LiveProgress)])
def test_a_rate_is_that_of_late_not_the_mean_since_the_start(
    every_s: float, progress_of: Callable[..., TextProgress]
) -> None:
    """A thousand rows a second for twenty seconds, then none; a live line tells of the last second."""
    now, told = [0.0], list[str]()
    progress = progress_of(io.StringIO(), clock=lambda: now[0])
    progress._write = told.append  # type: ignore[method-assign]
    with progress:
        for step in range(1, round(40 / every_s)):
            now[0] = step * every_s
            came = round(1000 * min(now[0], 20))
            progress.update_durable({"one": Metrics(rows_in=9_000 + came)}, {"one": 9_000})
    rates = [line.split(", ")[2] for line in told]
    assert rates[0] == "now 1,000 rows/s", "rows of earlier lives did not come in these seconds"
    assert rates[len(rates) // 2 - 1] == "now 1,000 rows/s"
    assert rates[-1] == "now 0 rows/s"


def test_several_runs_have_each_its_own_rate() -> None:
    out, now = io.StringIO(), [0.0]
    with LineProgress(out, clock=lambda: now[0]) as progress:
        now[0] = 5.0
        progress.update_durable({"a": Metrics(rows_in=50), "b": Metrics(rows_in=5_000)}, {"a": 0, "b": 4_000})
    assert [line.split(", ")[3] for line in out.getvalue().splitlines()] == ["now 10 rows/s", "now 200 rows/s"]


def test_a_terminal_gets_a_live_line() -> None:
    out = Terminal()
    progress = progress_on(out, live=True)
    assert isinstance(progress, LiveProgress)
    with progress:
        progress.update(METRICS)
    assert "12.0k in" in out.getvalue()
    assert isinstance(progress_on(io.StringIO(), live=True), LineProgress)
    assert isinstance(progress_on(out, live=False), LineProgress)
