"""What the three cameras see: rows in the order in which they arrive."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.model.time import UNITS_US

CAMERAS = ("camera_north", "camera_centre", "camera_south")
ROWS_PER_SECOND = 5_000  # of all cameras together
START_US = 1_767_258_000 * UNITS_US["second"]  # 2026-01-01 09:00
LATENESS = "2 seconds"
LATENESS_US = 2 * UNITS_US["second"]
KM_BETWEEN = (0.4, 0.6)
PASSING = 0.6  # the share of sightings that belong to an object on its way past all three cameras
LATE = 2e-4  # the share of sightings that arrive after their time is over

Numbers = npt.NDArray[np.int64]


def sightings(rows: int, seed: int) -> dict[str, pa.Table]:
    """What the cameras see, each in the order in which its rows arrive: objects that pass all three cameras in
    either direction, and as noise objects that only one camera sees."""
    rng = np.random.default_rng(seed)
    per_camera = max(1, rows // len(CAMERAS))
    span_us = max(1, rows * UNITS_US["second"] // ROWS_PER_SECOND)
    passing = int(PASSING * per_camera)
    objects = 4 * passing + 1  # so that some pass more than once
    who = rng.integers(0, objects, passing)
    speed = rng.normal(90.0, 15.0, passing)
    times = [rng.integers(0, span_us, passing)]
    for km in KM_BETWEEN:
        times.append(times[-1] + _travel_us(rng, speed, km))
    southbound = rng.random(passing) < 0.5
    seen = [np.where(southbound, there, back) for there, back in zip(times, reversed(times), strict=True)]
    return {
        camera: _sighted(rng, who, speed, at, per_camera - passing, objects, span_us)
        for camera, at in zip(CAMERAS, seen, strict=True)
    }


def _travel_us(rng: np.random.Generator, speed_kmh: npt.NDArray[np.float64], km: float) -> Numbers:
    """The time from one camera to the next: at the object's own speed, with a stop now and then."""
    driving = km * 3600 / np.clip(speed_kmh, 20, None)
    stopping = rng.exponential(12.0, driving.size) * (rng.random(driving.size) < 0.6)
    return np.asarray((driving + stopping) * UNITS_US["second"], np.int64)


def _sighted(
    rng: np.random.Generator,
    who: Numbers,
    speed: npt.NDArray[np.float64],
    at_us: Numbers,
    noise: int,
    objects: int,
    span_us: int,
) -> pa.Table:
    """The rows of one camera. A row arrives up to 1.5 s after its time, and a few of them 5 s too late."""
    # So many numbers that hardly any is drawn twice: noise matches nothing.
    ids = np.concatenate([who, objects + rng.integers(0, 2**40, noise)])
    times = np.concatenate([at_us, rng.integers(0, span_us, noise)])
    speeds = np.concatenate([speed + rng.normal(0.0, 4.0, speed.size), rng.normal(90.0, 25.0, noise)])
    delay = rng.integers(0, 3 * LATENESS_US // 4, ids.size)
    delay += np.where(rng.random(ids.size) < LATE, LATENESS_US + 3 * UNITS_US["second"], 0)
    order = np.argsort(times + delay, kind="stable")
    return pa.table(
        {
            "object": ids[order],
            "speed": np.round(np.clip(speeds, 5.0, None), 1)[order],
            "ts": pa.array(START_US + times[order], pa.timestamp("us")),
        }
    )


def is_late(table: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows arrive more than the lateness behind the newest before them."""
    times = table["ts"].combine_chunks().view(pa.int64()).to_numpy()
    newest = np.maximum.accumulate(times)
    late = np.zeros(times.size, np.bool_)
    # Against the newest before it: a row does not make itself late.
    late[1:] = times[1:] < newest[:-1] - LATENESS_US
    return late
