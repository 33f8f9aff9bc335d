"""Objects that pass three cameras along a road, in either direction, among others that only one camera sees."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.lab.workloads.making import SECOND_US, Floats, Numbers, at_least, in_time_order

CAMERAS = ("north", "centre", "south")
KM_BETWEEN = (0.4, 0.6)
KMH, KMH_SPREAD, SLOWEST_KMH = 90.0, 15.0, 20.0
STOPS, STOP_SECONDS = 0.3, 12.0  # how many stop between two cameras, and for how long in the mean


def cameras(
    rows: int = 30_000, seed: int = 1, *, rate: float = 1_000.0, passing: float = 0.6, returning: float = 0.2
) -> dict[str, pa.Table]:
    """What three cameras see: object, speed and time; join them by `object`, some seconds apart.

    rows: of all cameras together.
    rate: rows a second of all cameras together.
    passing: the share of rows of objects that pass all three; the others are seen once.
    returning: the share of passages by an object that was seen before.

    >>> seen = cameras(rows=3000, seed=1)
    >>> seen["north"].schema.names, [table.num_rows for table in seen.values()]
    (['object', 'speed', 'ts'], [1000, 1000, 1000])
    """
    at_least("rate", rate, 1e-6)
    for name, share in (("passing", passing), ("returning", returning)):
        if not 0 <= share <= 1:
            raise DataError(f"{name} is a share, from 0 to 1, but {share} was given")
    rng = np.random.default_rng(seed)
    each = rows // len(CAMERAS)
    through = round(passing * each)
    span_us = max(1, int(rows / rate * SECOND_US))
    known = max(1, round((1 - returning) * through))
    who = np.concatenate([np.arange(min(known, through)), rng.integers(0, known, max(0, through - known))])
    speed = np.clip(rng.normal(KMH, KMH_SPREAD, through), SLOWEST_KMH, None)
    first = rng.integers(0, span_us, through)
    second = first + _travel_us(rng, speed, KM_BETWEEN[0])
    there = (first, second, second + _travel_us(rng, speed, KM_BETWEEN[1]))
    southbound = rng.random(through) < 0.5
    made = {}
    for place, camera in enumerate(CAMERAS):
        alone = each - through
        # Northbound the same three times are met in the opposite order.
        times = np.concatenate([np.where(southbound, there[place], there[-1 - place]), rng.integers(0, span_us, alone)])
        # So many numbers that hardly any is drawn twice: no other camera sees these.
        objects = np.concatenate([who, known + rng.integers(0, 2**40, alone)])
        speeds = np.concatenate([speed, rng.normal(KMH, KMH_SPREAD, alone)]) + rng.normal(0.0, 3.0, each)
        made[camera] = in_time_order(times, {"object": objects, "speed": np.round(speeds, 1)})
    return made


def _travel_us(rng: np.random.Generator, speed_kmh: Floats, km: float) -> Numbers:
    stopping = rng.exponential(STOP_SECONDS, speed_kmh.size) * (rng.random(speed_kmh.size) < STOPS)
    return np.asarray((km * 3600 / speed_kmh + stopping) * SECOND_US, np.int64)
