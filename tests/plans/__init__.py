"""Golden files over catalog.sql: error_*.sql, explain_*.sql and identity_*.sql beside the .txt that each must give."""

from __future__ import annotations

from pathlib import Path

from watersmeet.model.catalog import Catalog
from watersmeet.runtime.declaring import declare
from watersmeet.sql import parse_script
from watersmeet.sql.declarations import declaration_of
from watersmeet.sql.syntax import CreateStream, CreateTable

FOLDER = Path(__file__).parent


def golden_catalog() -> Catalog:
    catalog, text = Catalog(), (FOLDER / "catalog.sql").read_text()
    for statement in parse_script(text):
        assert isinstance(statement, CreateStream | CreateTable)
        declare(declaration_of(statement, text), catalog, open_sources=False)
    return catalog
