"""What operators count. A line of `Counted` is all it takes to have a counter of that name told by both hosts, in
`query.metrics()`, in the progress of every batch and in the documentation; what is left is to count it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields
from functools import reduce
from typing import ClassVar

from watersmeet.dataclass import dataclass
from watersmeet.model.metric import KNOWN, LATEST, SECONDS, WORK, metric, metrics_of, sum_by_name
from watersmeet.physical.estimate import Switch


@dataclass
class Counted:
    """The metrics that operators count under the same names."""

    stored_rows: int = metric("rows that entered windows")
    expired_rows: int = metric("rows that left their windows")
    duplicate_rows: int = metric("rows that `DEDUPLICATE` left out, as one of their key had come", if_any=True)
    results: int = metric("rows of the answer that were given; of one that changes, its changes", stage="last")
    lost_results: int | None = metric(
        "results that were not found because bounded memory let go of rows early; None if that is not known",
        KNOWN,
        columns=("lost_results", "unknown_losses"),
    )
    lost_between: tuple[int, int] | None = metric(
        "the bounds of `lost_results`, where it is estimated (`recall = 'panes'`)",
        LATEST,
        if_any=True,
        where="in-process",
    )
    # incomplete rows: DGR03's ArM
    incomplete_rows: int | None = metric(
        "rows that did not meet all their partners: what completion would have to read again; None if not known",
        KNOWN,
        columns=(),
    )
    queue_shed_rows: int = metric(
        "rows among `shed_rows` that were never joined, as processing was too far behind (`max_lag`); the losses are "
        "estimated then",
        if_any=True,
    )
    tested_combinations: int = metric(
        "combinations that were tested on a condition which indexes and kernels cannot test, whole ones or on "
        "their way ([more](optimizer.md#conditions-on-combinations))",
        if_any=True,
    )
    spilled_rows: int = metric(
        "rows whose columns went to disk, as memory was full (`when_full = 'spill'`, "
        "[more](shedding.md#windows-larger-than-memory))",
        if_any=True,
        where="in-process",
    )
    spilled_bytes: int = metric("bytes that they took in memory", if_any=True, where="in-process")
    kernel_seconds: float = metric(
        "seconds of probing and inserting; of an answer that changes, of all its operators",
        SECONDS,
        columns=("kernel_ns",),
    )
    work: dict[str, int] = metric(
        "what one of the [papers' algorithms](lab.md) has counted, by the name of the count", WORK, if_any=True
    )


@dataclass
class Counters(Counted):
    """What an operator has done so far. `shed_rows` are those that lost their memory early, by stream; `switches` the
    changes of a join's routes."""

    ITEMS: ClassVar = {"switches": Switch}
    GROWS: ClassVar = True  # so that a counter more is no other format

    shed_rows: dict[str, int] = field(default_factory=dict)
    switches: list[Switch] = field(default_factory=list)

    @property
    def losses_are_estimated(self) -> bool:
        return self.lost_between is not None or (self.queue_shed_rows > 0 and self.lost_results is not None)


# All of it is state, a counter that is added to the table too.
Counters.STATE = tuple(one.name for one in fields(Counters))  # type: ignore[attr-defined]


def counted_together(counters: Sequence[Counters]) -> Counters:
    """What several operators of one plan have done, each with its share of the rows."""
    return reduce(_both, counters)


def _both(one: Counters, other: Counters) -> Counters:
    metrics = metrics_of(Counted)
    sums = {name: line.kind.beside(getattr(one, name), getattr(other, name)) for name, line in metrics.items()}
    return Counters(
        **sums, shed_rows=sum_by_name(one.shed_rows, other.shed_rows), switches=one.switches + other.switches
    )
