"""H04: Hammad, Ghanem, Aref, Elmagarmid and Mokbel, Efficient Pipelined Execution of Sliding Window Queries (2004)."""

from __future__ import annotations

from watersmeet.lab.experiment import Experiment
from watersmeet.lab.papers.h04 import examples, memory, response_times, selectivity, throughput

_IN_ORDER = (
    "E10",
    "E11",
    "E12",
    "E13",
    "E14",
    "E15",
    "E16",
    "M1",
    "M4",
    "W1",
    "W2",
    "O1",
    "O2",
    "O2s",
    "E12-flights",
    "E12-pizzas",
)
_MODULES = (response_times, selectivity, throughput, memory, examples)
_FOUND = {one.id: one for module in _MODULES for one in module.EXPERIMENTS}
EXPERIMENTS: tuple[Experiment, ...] = tuple(_FOUND[f"H04-{name}"] for name in _IN_ORDER if f"H04-{name}" in _FOUND)
