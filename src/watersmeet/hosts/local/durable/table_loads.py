"""The loads of static tables that batches have joined, kept as long as one of those may be repeated.

A load is a file of the checkpoint before the first batch that joins it is in the journal, and the batch names it; so a
batch that is repeated joins what it joined before. A query whose answer changes may join a row once more when it
leaves; its tables stay as they were when the run began, in all its lives.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from watersmeet.errors import OldTableWarning, RunError, WatersmeetError
from watersmeet.hosts.local.durable.batches import Step
from watersmeet.hosts.local.durable.files import remove_file, replace_file
from watersmeet.hosts.local.fed_query import FedQuery
from watersmeet.model.catalog import Table
from watersmeet.plan.nodes import Plan, relations_below
from watersmeet.runtime.late_rows import Tell
from watersmeet.runtime.reloading import Load, Reloads, are_equal, loaded


class TableLoads:
    def __init__(self, folder: Path, fed: FedQuery, tell: Tell, kept: Mapping[str, Load | None]) -> None:
        """kept: what `kept_tables` has given."""
        self._folder = folder / "tables"
        self._kept = kept
        self._tell = tell
        self._tables = {one.name: one for one in relations_below(fed.plan.root) if isinstance(one, Table)}
        self._fed = fed
        self._reloads = Reloads(fed.reloaded, tell)
        self.numbers: dict[str, int] = {}  # of the loads that are joined now

    def recover(self, numbers: Mapping[str, int]) -> None:
        """Join what was joined when the state was saved, or at first; what has been loaded for this life comes next."""
        for name, load in self._kept.items():
            if load is None:
                self._write(name, 0, self._fed.table_now(name))
            else:
                self._tell_if_changed(name, load)
        for name in self._fed.reloaded:
            fresh, number = self._fed.table_now(name), numbers.get(name, 0)
            self.numbers[name] = number
            if self._path(name, number).exists():
                self._use(name, number)
                # As the batches that are repeated now change it, it is offered against the last of them, by `begin`.
                self._reloads.offer(name, fresh)
            elif name in numbers:
                raise RunError(
                    f"the checkpoint lacks the rows of table {name!r} that its batches have joined: "
                    f"{self._path(name, number)} is not there",
                    hint="bring it back, or start anew with another checkpoint",
                )
            else:
                self._write(name, number, fresh)

    def _tell_if_changed(self, name: str, kept: Load) -> None:
        with suppress(WatersmeetError):  # it is not needed, so it need not be there
            if not are_equal(kept, loaded(self._tables[name])):
                self._tell(
                    OldTableWarning(
                        f"table {name!r} has changed since this run began, and its answer goes on with the rows of "
                        "then; another checkpoint begins with those of now"
                    )
                )

    def begin(self) -> None:
        """From now on tables are loaded again."""
        waiting = self._reloads.take()
        self._reloads.start({name: self._fed.table_now(name) for name in self._fed.reloaded})
        for name, load in waiting.items():
            self._reloads.offer(name, load)

    def steps(self) -> list[Step]:
        """What has been loaded since the last batch, as the first steps of the next."""
        found: list[Step] = []
        for name, load in self._reloads.take().items():
            number = self.numbers[name] + 1
            self._write(name, number, load)
            found.append(Step("table", name, range=number))
        return found

    def take(self, step: Step) -> None:
        self._use(step.stream, int(step.range))

    def forget(self, numbers: Mapping[str, int]) -> None:
        """No batch before those that joined these is repeated any more."""
        for name, number in numbers.items():
            for path in self._folder.glob(f"{quote(name, safe='')}-*.arrow"):
                if int(path.stem.rpartition("-")[2]) < number:
                    remove_file(path)

    def close(self) -> None:
        self._reloads.close()

    def _use(self, name: str, number: int) -> None:
        self._fed.replace_table(name, _read(self._path(name, number)))
        self.numbers[name] = number

    def _write(self, name: str, number: int, load: Load) -> None:
        self._folder.mkdir(exist_ok=True)
        data = io.BytesIO()
        with pa.ipc.new_file(data, self._tables[name].schema) as writer:
            for batch in load:
                writer.write_batch(batch)
        replace_file(self._path(name, number), data.getvalue())

    def _path(self, name: str, number: int) -> Path:
        return _path_of(self._folder, name, number)


def kept_tables(folder: Path, plan: Plan) -> dict[str, Load | None]:
    """The tables that stay as they are for the life of a run, if it has begun with their rows."""
    if plan.kind == "rows":
        return {}  # what has met is given for good
    names = {one.name for one in relations_below(plan.root) if isinstance(one, Table)}
    paths = {name: _path_of(folder / "tables", name, 0) for name in names}
    return {name: _read(path) if path.exists() else None for name, path in paths.items()}


def _path_of(folder: Path, name: str, number: int) -> Path:
    return folder / f"{quote(name, safe='')}-{number:012d}.arrow"


def _read(path: Path) -> Load:
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        return [reader.get_batch(i) for i in range(reader.num_record_batches)]
