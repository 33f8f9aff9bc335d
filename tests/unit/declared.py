"""Declarations as tests make them: opened in this process, or read as Spark does without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from watersmeet.io.declared_source import open_declared
from watersmeet.io.sources import Source
from watersmeet.model.declaration import Declaration
from watersmeet.runtime.declaring import Opened


class AsSpark:
    """Reads declarations as Spark does, and opens nothing."""

    host = "spark"

    def __call__(self, declared: Declaration) -> Opened:
        assert declared.schema is not None
        return declared.schema, None, None


def source_with(name: str, options: Mapping[str, Any], schema: pa.Schema | None) -> Source:
    return open_declared(Declaration.in_python("stream", name, options, schema=schema))
