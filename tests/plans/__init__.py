"""Golden files over catalog.sql: error_*.sql, explain_*.sql and identity_*.sql beside the .txt that each must give."""

from __future__ import annotations

from pathlib import Path

from watersmeet.model.catalog import Catalog, Stream, Table
from watersmeet.sql import parse_script
from watersmeet.sql.syntax import CreateStream, CreateTable

FOLDER = Path(__file__).parent


def golden_catalog() -> Catalog:
    catalog = Catalog()
    for statement in parse_script((FOLDER / "catalog.sql").read_text()):
        match statement:
            case CreateStream(name=name, schema=schema, options=options) if schema is not None:
                catalog.add(Stream(name, schema, options["time"]))
            case CreateTable(name=name, schema=schema) if schema is not None:
                catalog.add(Table(name, schema))
    return catalog
