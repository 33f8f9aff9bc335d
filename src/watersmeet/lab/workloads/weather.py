"""Reports of weather stations in two years, of the shape that DGR03 describes in section 4.5.

The paper joins the September reports of 1985 and 1986, a million each, by squares of 10 by 10 degrees. Stations stand
where people live: a square has as many as its land and a lognormal factor give it, and each square has one at least.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.lab.workloads.making import DAY_US, HOUR_US, SECOND_US, Floats, Numbers, at_least, drawn, in_time_order

BANDS, MERIDIANS = 18, 36
CELLS = BANDS * MERIDIANS
# How much of each band of 10 degrees is land, from the south pole to the north pole.
LAND = (1.0, 0.76, 0.10, 0.01, 0.03, 0.11, 0.23, 0.22, 0.24, 0.23, 0.26, 0.38, 0.43, 0.52, 0.57, 0.71, 0.29, 0.07)
MOVED = 0.05  # the share of stations that stand elsewhere a year later
REPORT_HOURS = np.arange(0, 24, 3)
AT_NIGHT = 0.5  # reports at night, per report by day
LATEST_US = 600 * SECOND_US  # after the hour


def weather(
    rows: int = 100_000, seed: int = 1, *, stations: int = 7_000, days: int = 30, spread: float = 1.5
) -> dict[str, pa.Table]:
    """Weather reports of one month, last year and this year; join them by `cell`, a square of 10 by 10 degrees.

    rows: of both years together.
    stations: how many there are, at least one in each of the 648 squares.
    days: how long the month is.
    spread: of the lognormal factor, how unevenly stations stand; 0 is by land alone.

    The times of both streams are those of this year, so that the same hour of the month meets itself.

    >>> years = weather(rows=20_000, seed=1)
    >>> years["this_year"].schema.names, years["this_year"].num_rows
    (['station', 'cell', 'cloud_cover', 'ts'], 10000)
    """
    at_least("stations", stations, CELLS)
    at_least("days", days, 1)
    at_least("spread", spread, 0)
    rng = np.random.default_rng(seed)
    density = _density(rng, spread)
    before = np.concatenate([np.arange(CELLS), drawn(rng, density, stations - CELLS)])
    moved = np.flatnonzero(rng.random(stations) < MOVED)
    moved = moved[moved >= CELLS]  # the first of each square stays
    after = before.copy()
    after[moved] = drawn(rng, density, moved.size)
    return {
        "last_year": _reports(rng, before, rows // 2, days),
        "this_year": _reports(rng, after, rows // 2, days),
    }


def _density(rng: np.random.Generator, spread: float) -> Floats:
    """The share of stations in each square."""
    latitudes = np.radians(np.arange(BANDS) * 10 - 85)
    land = np.repeat(np.array(LAND) * np.cos(latitudes), MERIDIANS)
    weights = land * rng.lognormal(0.0, spread, CELLS)
    shares: Floats = weights / weights.sum()
    return shares


def _reports(rng: np.random.Generator, cell_of: Numbers, rows: int, days: int) -> pa.Table:
    station = rng.integers(0, cell_of.size, rows)
    cell = cell_of[station]
    hour = _hours(rng, cell % MERIDIANS)
    times = rng.integers(0, days, rows) * DAY_US + hour * HOUR_US + rng.integers(0, LATEST_US, rows)
    oktas = rng.binomial(8, 0.6, rows)
    return in_time_order(times, {"station": station, "cell": cell, "cloud_cover": oktas.astype(np.int64)})


def _hours(rng: np.random.Generator, meridian: Numbers) -> Numbers:
    """The hour of each report, every third of the day; by night, local time, fewer report."""
    local = (REPORT_HOURS + 24 * np.arange(MERIDIANS)[:, None] / MERIDIANS) % 24
    weights = np.where((local >= 6) & (local < 18), 1.0, AT_NIGHT)
    cumulated = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    slot = (rng.random(meridian.size)[:, None] > cumulated[meridian]).sum(axis=1)
    # Rounding may leave the last of the cumulated shares below a draw.
    hours: Numbers = REPORT_HOURS[np.minimum(slot, REPORT_HOURS.size - 1)]
    return hours
