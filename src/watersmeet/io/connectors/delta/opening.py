"""A Delta table at the other end: where it is, how its store is entered, and its errors as sentences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from watersmeet.errors import OptionError, SourceError, WatersmeetError
from watersmeet.io.conform import check_columns, conform, plain_schema
from watersmeet.io.connectors.contract import TableOpening
from watersmeet.io.connectors.lake_options import full_path, in_a_sentence, needed
from watersmeet.io.filesystems import fs_options, is_in_store, located

# What file sources call the ways into a store, and what Delta's library calls them.
_NAMES = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
    "endpoint_override": "AWS_ENDPOINT_URL",
    "anonymous": "AWS_SKIP_SIGNATURE",
    "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
}
# Tables that need more of a reader hold rows elsewhere than in their files as they are.
_READABLE = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "appendOnly"}


class Place:
    """Where a table is. Can be pickled: what it opens, it opens when it is asked."""

    def __init__(self, owner: str, options: Mapping[str, str], kind: type[WatersmeetError]) -> None:
        self.path = full_path(needed(owner, options, "path", "s3://bucket/table"))
        self.kind = kind
        self._options = {name: value for name, value in options.items() if name.startswith(("fs.", "storage."))}

    @property
    def storage(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in self._options.items():
            prefix, _, rest = name.partition(".")
            found[_NAMES.get(rest, rest.upper()) if prefix == "fs" else rest.upper()] = value
        endpoint = found.get("AWS_ENDPOINT_URL", _surroundings("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        if endpoint and "://" not in endpoint:
            endpoint = f"{found.pop('SCHEME', 'https')}://{endpoint}"
            found["AWS_ENDPOINT_URL"] = endpoint
        if endpoint and endpoint.startswith("http://"):
            found.setdefault("AWS_ALLOW_HTTP", "true")
        return found

    def files(self) -> pa_fs.FileSystem:
        """The files of the table, by their paths in it."""
        with self.naming_errors("cannot be reached"):
            if any(name.startswith("storage.") for name in self._options):
                return pa_fs.PyFileSystem(DeltaStorageHandler(self.path, self.storage))
            # Arrow's own lets other threads work while it waits for the store; Delta's does not.
            address = self.path if is_in_store(self.path) else f"file://{self.path}"
            files, path = located(address, fs_options(self._options))
            return pa_fs.SubTreeFileSystem(path, files)

    def opened(self, version: int | str | None = None) -> DeltaTable:
        with self.naming_errors("cannot be opened"):
            table = DeltaTable(self.path, storage_options=self.storage)
            if version is not None:
                table.load_as_version(version)
            return table

    def opened_if_there(self) -> DeltaTable | None:
        with self.naming_errors("cannot be opened"):
            try:
                return DeltaTable(self.path, storage_options=self.storage)
            except TableNotFoundError:
                return None

    @contextmanager
    def naming_errors(self, what: str, hint: str | None = None) -> Iterator[None]:
        try:
            with in_a_sentence(self.kind, f"the Delta table {self.path} {what}", (DeltaError,), self._options, hint):
                yield
        except self.kind as error:
            if self.kind is SourceError and isinstance(error.__context__, TableNotFoundError):
                raise no_table(self.path, self.kind) from None
            raise


def _surroundings(*names: str) -> str | None:
    """What the environment says by the first of these names. The library reads it by itself, but has to be told
    whether an address without encryption is meant."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def no_table(path: str, kind: type[WatersmeetError]) -> WatersmeetError:
    return kind(f"there is no Delta table at {path}", hint="is the path right, and may it be read?")


def columns_of(table: DeltaTable, path: str) -> pa.Schema:
    return plain_schema(pa.schema(table.schema()), f"the Delta table {path}")


def check_readable(table: DeltaTable, path: str) -> None:
    """Refuse a table whose rows are not simply those of its files."""
    protocol: Any = table.protocol()
    beyond = sorted(set(protocol.reader_features or ()) - _READABLE)
    mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mapping not in (None, "none"):
        beyond.append("columnMapping")
    if beyond:
        raise SourceError(
            f"the Delta table {path} uses {beyond[0]}, which is not read as a stream",
            hint="read it as a table (CREATE TABLE … WITH (source = 'delta', …)), or write it without that",
        )


def delta_table(opening: TableOpening) -> pa.Table:
    place = Place(opening.name, opening.options, SourceError)
    table = place.opened(_version(opening))
    columns = None if opening.columns is None else opening.columns.names
    found = pa.schema(table.schema())
    if opening.columns is not None:
        check_columns(found, opening.columns, opening.name, f"the Delta table {place.path}")
    with place.naming_errors("cannot be read"):
        rows = pa.table(table.scan(columns=columns))
    schema = opening.columns or plain_schema(rows.schema, f"the Delta table {place.path}")
    return pa.Table.from_batches([conform(batch, schema) for batch in rows.to_batches()], schema)


def _version(opening: TableOpening) -> int | None:
    written = opening.options.get("version")
    if written is not None and not written.strip().isdecimal():
        raise OptionError(f"{opening.name!r} has version = {written!r}; it must be a whole number", option="version")
    return None if written is None else int(written)
