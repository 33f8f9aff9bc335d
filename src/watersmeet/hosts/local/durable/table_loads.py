"""The loads of static tables that batches have joined, kept as long as one of those may be repeated.

A load is a file of the checkpoint before the first batch that joins it is in the journal, and the batch names it; so a
batch that is repeated joins what it joined before. A query whose answer changes may join a row once more when it
leaves; its tables stay as they were when the run began, in all its lives.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import quote

import pyarrow as pa

from watersmeet.errors import WatersmeetError
from watersmeet.hosts.local.durable.batches import Step
from watersmeet.hosts.local.durable.checkpoint import Checkpoint
from watersmeet.hosts.local.durable.notes import RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.pushed_execution import PushedExecution
from watersmeet.model.catalog import Table
from watersmeet.plan.query import Plan
from watersmeet.runtime.left_out import Tell
from watersmeet.runtime.reloading import Load, Reloads, are_equal, loaded
from watersmeet.warning import ConnectorWarning

TABLES = "tables"


class TableLoads:
    def __init__(
        self, checkpoint: Checkpoint, execution: PushedExecution, tell: Tell, kept: Mapping[str, Load | None]
    ) -> None:
        """kept: what `kept_tables` has given."""
        self._notes, self._run = checkpoint.notes, checkpoint.run
        self._place = checkpoint.place.below(TABLES)
        self._kept = kept
        self._tell = tell
        self._tables = {one.name: one for one in execution.plan.relations if isinstance(one, Table)}
        self._execution = execution
        self._reloads = Reloads(execution.reloaded, tell)
        self.numbers: dict[str, int] = {}  # of the loads that are joined now

    def recover(self, numbers: Mapping[str, int]) -> None:
        """Join what was joined when the state was saved, or at first; what has been loaded for this life comes next."""
        had = _had(self._notes)
        for name, load in self._kept.items():
            if load is None:
                self._write(name, 0, self._execution.tables_now[name])
            else:
                self._tell_if_changed(name, load)
        for name in self._execution.reloaded:
            fresh, self.numbers[name] = self._execution.tables_now[name], numbers.get(name, 0)
            if name not in had:
                self._write(name, 0, fresh)
                continue
            self._use(name, self.numbers[name])
            # As the batches that are repeated now change it, it is offered against the last of them, by `begin`.
            self._reloads.offer(name, fresh)
        self._notes.note(tables=sorted({*had, *self._kept, *self._execution.reloaded}))

    def _tell_if_changed(self, name: str, kept: Load) -> None:
        with suppress(WatersmeetError):  # it is not needed, so it need not be there
            if not are_equal(kept, loaded(self._tables[name])):
                self._tell(
                    ConnectorWarning(
                        "old_table",
                        f"table {name!r} has changed since this run began, and its answer goes on with the rows of "
                        "then; another checkpoint begins with those of now",
                    )
                )

    def begin(self) -> None:
        """From now on tables are loaded again."""
        waiting = self._reloads.take()
        self._reloads.start({name: self._execution.tables_now[name] for name in self._execution.reloaded})
        for name, load in waiting.items():
            self._reloads.offer(name, load)

    def steps(self) -> list[Step]:
        """What has been loaded since the last batch, as the first steps of the next."""
        found: list[Step] = []
        for name, load in self._reloads.take().items():
            number = self.numbers[name] + 1
            self._write(name, number, load)
            found.append(Step("table", name, number=number))
        return found

    def take(self, step: Step) -> None:
        self._use(step.stream, step.number)

    def forget(self, numbers: Mapping[str, int]) -> None:
        """No batch before those that joined these is repeated any more."""
        for name, number in numbers.items():
            for file in self._place.names(f"{quote(name, safe='')}-*.arrow"):
                if int(file.removesuffix(".arrow").rpartition("-")[2]) < number:
                    self._place.remove(file)

    def close(self) -> None:
        self._reloads.close()

    def _use(self, name: str, number: int) -> None:
        self._execution.replace_table(name, self._read(name, number))
        self.numbers[name] = number

    def _write(self, name: str, number: int, load: Load) -> None:
        _write(self._place, name, number, load, self._tables[name].schema, self._run)

    def _read(self, name: str, number: int) -> Load:
        return _read(self._place, name, number, self._run)


def kept_tables(checkpoint: Checkpoint, plan: Plan) -> dict[str, Load | None]:
    """The tables that stay as they are for the life of a run, if it has begun with their rows."""
    if plan.kind == "rows":
        return {}  # what has met is given for good
    names = {one.name for one in plan.relations if isinstance(one, Table)}
    place, had = checkpoint.place.below(TABLES), _had(checkpoint.notes)
    return {name: _read(place, name, 0, checkpoint.run) if name in had else None for name in names}


def _had(notes: RunNotes) -> set[str]:
    """The tables whose first load is in the checkpoint."""
    return set(notes.get("tables", []))


def begin_tables(checkpoint: Checkpoint, tables: Mapping[str, pa.Table]) -> None:
    """The first loads of tables, of a run that goes on with those of another."""
    for name, rows in tables.items():
        _write(checkpoint.place.below(TABLES), name, 0, rows.to_batches(), rows.schema, checkpoint.run)
    checkpoint.notes.note(tables=sorted(tables))


def _write(place: Place, name: str, number: int, load: Load, schema: pa.Schema, run: str) -> None:
    place.folder.mkdir(exist_ok=True)
    data = io.BytesIO()
    with pa.ipc.new_file(data, schema) as writer:
        for batch in load:
            writer.write_batch(batch)
    place.write_sealed(_file_of(name, number), data.getvalue(), run)


def _file_of(name: str, number: int) -> str:
    return f"{quote(name, safe='')}-{number:012d}.arrow"


def _read(place: Place, name: str, number: int, run: str) -> Load:
    reader = pa.ipc.open_file(pa.py_buffer(place.read_sealed(_file_of(name, number), run)))
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]
