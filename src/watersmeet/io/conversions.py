"""Answers in what other libraries have; each is loaded when it is asked for, and said to be missing if it is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa

from watersmeet.errors import SetupError


def as_pandas(table: pa.Table) -> Any:
    _needed("pandas", "to_pandas()", "pip install pandas")
    return table.to_pandas()


def as_polars(table: pa.Table) -> Any:
    return _needed("polars", "to_polars()", "pip install polars").from_arrow(table)


def as_duckdb(table: pa.Table, connection: Any = None) -> Any:
    duckdb = _needed("duckdb", "to_duckdb()", "pip install 'watersmeet[check]', or pip install duckdb")
    return duckdb.from_arrow(table) if connection is None else connection.from_arrow(table)


def _needed(library: str, what: str, install: str) -> Any:
    try:
        return import_module(library)
    except ImportError:
        raise SetupError(f"{what} needs {library}, which is not installed", hint=install) from None
