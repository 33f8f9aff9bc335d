"""The examples of the pages about Spark run and print what they say."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs.reader import Reader
from tests.docs.test_pages import ON_SPARK
from tests.docs.test_shown import ROOT, blocks
from tests.spark.harness import SETTINGS
from watersmeet.hosts.spark.launching.query_start import EMPTY_BATCHES


def test_the_python_of_the_page_prints_what_it_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spark.conf.set(EMPTY_BATCHES, "true")  # as for users: Spark's own operators stand after ours
    names: dict[str, object] = {}
    found = blocks(ROOT / "docs" / "spark.md")
    for (language, code), (following, text) in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "docs/spark.md", "exec"), names)
            assert printed.getvalue() == (text if following == "text" else "")
    spark.conf.set(EMPTY_BATCHES, SETTINGS[EMPTY_BATCHES])


def test_the_how_to_page_does_what_it_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # the command would end the Spark of all tests
    reader = Reader(tmp_path)
    try:
        reader.read(ON_SPARK)
    finally:
        reader.close()
