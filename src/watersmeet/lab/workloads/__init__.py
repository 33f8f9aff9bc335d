"""Generators of streams: seeded, vectorised, and the same for everyone who gives the same numbers.

Each is a function that gives tables by the name of their stream, in the order of their times, which are in `ts`.
`WORKLOADS` lists them; in SQL they are sources, see docs/lab.md.

>>> from watersmeet.lab import workloads
>>> sorted(workloads.zipf(rows=100, seed=7))
['s1', 's2']
"""

from __future__ import annotations

from watersmeet.lab.workloads.cameras import cameras
from watersmeet.lab.workloads.flights import flights
from watersmeet.lab.workloads.nexmark import nexmark
from watersmeet.lab.workloads.packets import packets
from watersmeet.lab.workloads.weather import weather
from watersmeet.lab.workloads.workload import Workload
from watersmeet.lab.workloads.zipf import zipf

__all__ = ["WORKLOADS", "Workload", "cameras", "flights", "nexmark", "packets", "weather", "zipf"]

WORKLOADS: dict[str, Workload] = {
    one.name: one
    for one in (
        Workload(cameras, ("north", "centre", "south")),
        Workload(flights, ("ewr", "jfk", "lga", "weather")),
        Workload(nexmark, ("person", "auction", "bid")),
        Workload(packets, ("link1", "link2")),
        Workload(weather, ("last_year", "this_year")),
        Workload(zipf, ("s1", "s2")),
    )
}
