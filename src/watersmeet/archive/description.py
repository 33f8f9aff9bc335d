"""What an archive says of itself: the query it belongs to, in a small JSON file."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from watersmeet.archive.disk import reading, replace_file
from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError, UnsupportedError
from watersmeet.model.catalog import Catalog, Stream, Table
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.query import Plan
from watersmeet.plan.user_functions import brought_in

FORMAT = 2
FILE = "watersmeet.json"


@dataclass(frozen=True)
class ArchiveDescription:
    """`fingerprint` is what two runs that share an archive must have in common: all but how much they may keep. `id`
    tells archives of one query apart."""

    id: str
    sql: str
    fingerprint: str
    relations: list[dict[str, Any]]
    format: int = FORMAT
    timezone: str = "UTC"

    @classmethod
    def of(cls, plan: Plan) -> ArchiveDescription:
        relations = {one.name: one for one in plan.relations}
        described = [_described(one) for one in relations.values()]
        if brought := brought_in(plan.root):
            name = next(iter(brought.values())).name
            raise UnsupportedError(
                f"an archive keeps the text of its query, and {name} is a function that the text does not hold",
                hint="leave out archive, or work the function out over the answer",
            )
        return cls(uuid4().hex, plan.sql, fingerprint_of(plan), described, timezone=plan.options.timezone)

    @classmethod
    def read(cls, folder: Path) -> ArchiveDescription:
        path = folder / FILE
        with reading(folder, path):
            described = json.loads(path.read_text(encoding="utf-8"))
        if described.get("format") != FORMAT:
            raise DataError(
                f"{folder} is an archive of format {described.get('format')}, and this version reads format {FORMAT}",
                hint="complete it with the version that wrote it",
            )
        return cls(**described)

    def write(self, folder: Path) -> None:
        # The format stands first, for people who open the file.
        replace_file(folder / FILE, json.dumps({"format": self.format, **asdict(self)}, indent=2))

    def plan(self) -> Plan:
        """The query, over streams that only have names and columns."""
        from watersmeet.sql import bind

        catalog = Catalog()
        for one in self.relations:
            catalog.add(_relation(one))
        return bind(self.sql, catalog, self.timezone)


def _described(relation: Stream | Table) -> dict[str, Any]:
    # Base64 of Arrow's own form is exact; the readable columns beside it are for people.
    schema = base64.b64encode(relation.schema.serialize().to_pybytes()).decode()
    described: dict[str, Any] = {"name": relation.name, "columns": _readable(relation.schema), "schema": schema}
    if isinstance(relation, Stream):
        described |= {"time": relation.time, "lateness_us": relation.lateness_us}
    return described


def _readable(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def _relation(described: dict[str, Any]) -> Stream | Table:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(described["schema"])))
    if "time" in described:
        return Stream(described["name"], schema, described["time"], described["lateness_us"])
    return Table(described["name"], schema)


def fingerprint_of(plan: Plan) -> str:
    """Of what the query asks, whatever it may keep."""
    return sum_of(identity_of(plan))
