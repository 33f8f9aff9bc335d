"""Static tables that are loaded again now and then: which queries may join one, and the loads as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Event, Lock, Thread

import pyarrow as pa

from watersmeet.errors import UnsupportedError, WatersmeetError
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.catalog import Table
from watersmeet.plan.query import Plan
from watersmeet.runtime.left_out import Tell
from watersmeet.warning import ConnectorWarning

READ_ROWS = 1 << 16
Load = Sequence[pa.RecordBatch]


def reloaded_tables(plan: Plan) -> dict[str, Table]:
    """The tables of a query that say `reload`, by name; raises if it is none that may join such a table."""
    found = {one.name: one for one in plan.relations if isinstance(one, Table) and one.reload_us is not None}
    if found:
        _check(plan, next(iter(found)))
    return found


def refuse_reload(plan: Plan, where: str) -> None:
    for one in plan.relations:
        if isinstance(one, Table) and one.reload_us is not None:
            raise UnsupportedError(
                f"table {one.name!r} says reload, and {where} a table is read once, when the query starts",
                hint="leave reload out, or run it in-process with --engine local",
            )


def _check(plan: Plan, name: str) -> None:
    """Rows that leave an answer may be found by joining once more, and must find what was there when they came."""
    if plan.plain_join is None:
        raise UnsupportedError(
            f"table {name!r} says reload, which goes with inner joins whose answer only grows; in this query a row is "
            "joined once more when it leaves, and must find the same rows of the table",
            hint="leave reload out, or join the table in a query of its own",
        )
    if plan.shedding is not None or plan.spilling is not None or plan.method.is_classic:
        raise UnsupportedError(
            f"table {name!r} says reload, which does not go with bounded memory, nor with the joins of the papers",
            hint="leave one of them out",
        )


class Reloads:
    """Loads tables in threads of their own, each as often as it says. What has changed waits here, whole, until
    somebody takes it."""

    def __init__(self, tables: Mapping[str, Table], tell: Tell) -> None:
        self._tables = tables
        self._tell = tell
        self._last: dict[str, Load] = {}
        self._ready: dict[str, Load] = {}
        self._lock = Lock()
        self._stop = Event()

    def start(self, now: Mapping[str, Load]) -> None:
        """now: what is joined at first, by table."""
        self._last = dict(now)
        for name in self._tables:
            Thread(target=self._load_again, args=(name,), name=f"watersmeet loads {name}", daemon=True).start()

    def offer(self, name: str, load: Load) -> None:
        """A load that is complete; it waits unless it is the same as the one before."""
        with self._lock:
            if not are_equal(self._last.get(name), load):
                self._last[name] = self._ready[name] = load

    def take(self) -> dict[str, Load]:
        """What has come since this was last asked."""
        if not self._ready:
            return {}
        with self._lock:
            ready, self._ready = self._ready, {}
            return ready

    def close(self) -> None:
        self._stop.set()

    def _load_again(self, name: str) -> None:
        table = self._tables[name]
        assert table.reload_us is not None
        while not self._stop.wait(table.reload_us / 1e6):
            try:
                self.offer(name, loaded(table))
            except Exception as error:  # whatever it is, this goes on
                said = error.message if isinstance(error, WatersmeetError) else f"{type(error).__name__}: {error}"
                self._tell(
                    ConnectorWarning(
                        "old_table",
                        f"table {name!r} could not be loaded again, so the rows of before are joined: {said}",
                    )
                )


def loaded(table: Table) -> Load:
    return list(batches_of(table, READ_ROWS))


def are_equal(one: Load | None, other: Load) -> bool:
    if one is None or sum(part.num_rows for part in one) != sum(part.num_rows for part in other):
        return False
    return not one or bool(pa.Table.from_batches(one).equals(pa.Table.from_batches(other)))
