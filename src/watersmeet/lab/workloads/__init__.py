"""Generators of streams: seeded, vectorised, and the same for everyone who gives the same numbers.

Each is a function that gives tables by the name of their stream, in the order of their times, which are in `ts`.
`WORKLOADS` lists them; in SQL they are sources, see docs/lab.md.

>>> from watersmeet.lab import workloads
>>> sorted(workloads.zipf(rows=100, seed=7))
['s1', 's2']
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.lab.workloads.cameras import cameras
from watersmeet.lab.workloads.flights import flights
from watersmeet.lab.workloads.go03 import go03
from watersmeet.lab.workloads.nexmark import nexmark, nexmark_side_input
from watersmeet.lab.workloads.packets import packets
from watersmeet.lab.workloads.pizzas import pizzas
from watersmeet.lab.workloads.poisson import poisson
from watersmeet.lab.workloads.retail import favourites, sales, stores
from watersmeet.lab.workloads.steady import steady
from watersmeet.lab.workloads.tpch import tpch, tpch_nation, tpch_region
from watersmeet.lab.workloads.weather import weather
from watersmeet.lab.workloads.workload import Workload
from watersmeet.lab.workloads.zipf import zipf
from watersmeet.optimizer.cost.inputs import StreamRate

__all__ = [
    "WORKLOADS", "Workload", "cameras", "favourites", "flights", "go03", "nexmark", "nexmark_side_input", "packets",
    "pizzas", "poisson", "sales", "steady", "stores", "tpch", "tpch_nation", "tpch_region", "weather", "zipf",
]  # fmt: skip

# The streams of GO03's Table 5: λ, T, v.
TABLE_5 = tuple(
    StreamRate(name, *numbers)
    for name, numbers in {"s1": (10, 100, 500), "s2": (1, 100, 50), "s3": (1, 200, 40), "s4": (3, 100, 5)}.items()
)
ALIKE = {"a": 1000.0, "b": 1000.0, "c": 1000.0}

WORKLOADS: dict[str, Workload] = {
    one.name: one
    for one in (
        Workload(cameras, ("north", "centre", "south")),
        Workload(flights, ("ewr", "jfk", "lga", "weather")),
        Workload(go03, tuple(one.name for one in TABLE_5), {"streams": TABLE_5, "units": 1000.0}),
        Workload(nexmark, ("person", "auction", "bid"), tables={"side_input": nexmark_side_input}),
        Workload(packets, ("link1", "link2")),
        Workload(pizzas, ("chicken", "classic", "supreme", "veggie")),
        Workload(poisson, tuple(ALIKE), {"rates": ALIKE, "seconds": 60.0, "keys": 100}),
        Workload(stores, ("store_1", "store_2", "store_3", "store_4"), {"count": 4}, called="retail"),
        Workload(sales, ("sales",), {"rate": 20.0, "seconds": 3600.0}),
        Workload(steady, tuple(ALIKE), {"rates": ALIKE, "seconds": 60.0, "values": 100}),
        Workload(
            tpch,
            ("customer", "lineitem", "orders", "part", "partsupp", "supplier"),
            tables={"nation": tpch_nation, "region": tpch_region},
        ),
        Workload(weather, ("last_year", "this_year")),
        Workload(zipf, ("s1", "s2")),
    )
}


def workload_table(name: str, options: Mapping[str, str]) -> pa.Table:
    """The rows of one stream of a workload; all options but `stream` are parameters of the workload."""
    parameters = {key: value for key, value in options.items() if key != "stream"}
    return find_workload(name).table(options.get("stream"), parameters)


def find_workload(name: str) -> Workload:
    if name in WORKLOADS:
        return WORKLOADS[name]
    near = get_close_matches(name, WORKLOADS, n=1)
    hint = f"did you mean lab:{near[0]}? " if near else ""
    raise SourceError(f"there is no workload {name!r}", hint=f"{hint}there are {', '.join(WORKLOADS)}")
