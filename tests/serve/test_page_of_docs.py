"""What docs/serve.md shows is what happens: its script runs, and its commands print what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.test_shown import ROOT, blocks
from tests.serve.serving import serving
from watersmeet.serve.app import PATHS

PAGE = ROOT / "docs" / "serve.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")
def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    (_, script), (_, start), (_, started), *rest = blocks(PAGE)
    assert start == "watersmeet serve shop.sql --checkpoint shop\n"
    with serving(tmp_path, script.replace("'totals'", "'{folder}/totals'")) as client:
        names = [one["name"] for one in client.get("/queries").json()["queries"]]
        assert started == f"serving {', '.join(names)} at http://127.0.0.1:8740/\n"
        commands = [(code, said) for (kind, code), (_, said) in pairwise(rest) if kind == "sh"]
        assert len(commands) == 7
        for code, said in commands:
            code = code.replace("http://127.0.0.1:8740/", client.url)
            found = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False).stdout
            # The name of a run is another each time.
            assert re.sub(r'"[0-9a-f]{12}-', '"…-', found).rstrip("\n") == said.rstrip("\n")


def test_the_page_names_every_path() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [path for path in PATHS if path not in ("GET /", "POST /streams/NAME") and f"`{path}`" not in text] == []
