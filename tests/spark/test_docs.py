"""The Python of the page about Spark runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.unit.test_docs import ROOT, blocks


def test_the_python_of_the_page_prints_what_it_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, object] = {}
    found = blocks(ROOT / "docs" / "spark.md")
    for (language, code), (following, text) in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "docs/spark.md", "exec"), names)
            assert printed.getvalue() == (text if following == "text" else "")
