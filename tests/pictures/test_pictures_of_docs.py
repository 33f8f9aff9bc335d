"""The pictures of the documentation are what the queries beside them give; `make golden` draws them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.pictures.of_docs import FOLDER, PICTURES, ROOT

REWRITE = bool(os.environ.get("WATERSMEET_REWRITE"))
MOST_BYTES = 20_000


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_its_query_draws_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    drawn, path = PICTURES[name](), FOLDER / f"{name}.svg"
    if REWRITE:
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")
    assert path.stat().st_size < MOST_BYTES


# What the commands of a page draw is compared where the page is read (tests/docs); plots of what was measured are
# drawn with the page that shows them (tests/unit/benchmarks).
DRAWN_ELSEWHERE = {"paid.svg", *(path.name for path in FOLDER.glob("performance-*.svg"))}


def test_every_picture_is_drawn_here_and_shown_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    links = [path for page in pages for path in re.findall(r"!\[[^]]+\]\(([^)]+\.svg)\)", page.read_text())]
    shown = {Path(path).name for path in links if Path(path).parent.name == "pictures"}
    drawn = {f"{name}.svg" for name in PICTURES} | DRAWN_ELSEWHERE
    assert {path.name for path in FOLDER.glob("*.svg")} == drawn == shown
