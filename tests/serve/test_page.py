"""The page as files: all of it is served, none of it asks anybody else, and nothing in it makes markup of data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from tests.serve.serving import Client, row, serving
from watersmeet.serve.app import PAGE

FOLDER = Path(str(files("watersmeet.serve"))) / "page"
OURS = [path for path in FOLDER.glob("*.*") if path.suffix in (".html", ".js", ".css")]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("served"), token="sesame") as client:
        yield client


def test_every_file_of_the_page_is_served_to_anybody(client: Client) -> None:
    stranger = Client(client.url)
    for path, (name, kind) in PAGE.items():
        found = stranger.get(path)
        assert (found.status_code, found.headers["content-type"]) == (200, kind)
        assert found.content == (FOLDER / name).read_bytes()
        assert "default-src 'none'" in found.headers["content-security-policy"]
    assert {FOLDER / name for name, _ in PAGE.values()} >= set(OURS)
    assert stranger.get("/page/../app.py").status_code in (401, 404)
    assert stranger.get("/page/uplot/LICENSE").status_code == 401


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_the_page_asks_nobody_else_and_makes_no_markup_of_data(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|//cdn", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", text)
    assert not re.search(r"\son\w+=|style=", text)
    for named in re.findall(r"[\"'](/page/[^\"']+)[\"']", text):
        assert named in PAGE


def test_the_library_keeps_its_licence() -> None:
    assert "The MIT License" in (FOLDER / "uplot" / "LICENSE").read_text()


def test_the_numbers_of_the_last_minutes_are_kept(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        client.posted("a", [row(1, 2, 0)])
        samples: list[dict[str, object]] = []
        while not any(one["rows_in"] == 1 for one in samples):
            samples = client.get("/queries/groups/history").json()["samples"]
        last = samples[-1]
        assert (last["taken"], last["batches"], last["recall"]) == ({"a": 1}, 1, 1.0)
        assert client.get("/queries/groups/history?since=99999999999").json() == {"samples": []}
