"""Every example of the tutorial and of the how-to pages runs, and gives what the page says."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.reader import Reader
from tests.docs.test_shown import ROOT

DOCS = ROOT / "docs"
ON_SPARK = DOCS / "howto" / "spark.md"  # tests/spark/test_docs.py reads it
HOW_TO = [page for page in sorted((DOCS / "howto").glob("*.md")) if page != ON_SPARK]
PAGES = [
    DOCS / "tutorial.md",
    DOCS / "databases.md",
    DOCS / "lakes.md",
    DOCS / "bad_records.md",
    DOCS / "operations.md",
    *HOW_TO,
]


@pytest.mark.skipif(shutil.which("bash") is None or shutil.which("curl") is None, reason="examples use bash and curl")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_do_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for variable in ("TMPDIR", "WATERSMEET_WARM_DIR"):  # what others have left on this machine is not the page's
        monkeypatch.setenv(variable, str(tmp_path))
    reader = Reader(tmp_path)
    try:
        reader.read(page)
        _compare_pictures(page, tmp_path)
    finally:
        reader.close()


def _compare_pictures(page: Path, made: Path) -> None:
    """A picture that the page shows and its commands have made. `make golden` draws it anew."""
    for shown in (page.parent / one for one in re.findall(r"\]\(([\w./]+\.svg)\)", page.read_text(encoding="utf-8"))):
        drawn = made / shown.name
        if os.environ.get("WATERSMEET_REWRITE"):
            shutil.copy(drawn, shown)
        assert drawn.read_text(encoding="utf-8") == shown.read_text(encoding="utf-8")
