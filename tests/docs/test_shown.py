"""What the documentation shows is what happens: its Python runs, its SQL binds, its lists are complete."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from tests.unit.cli.test_commands import call
from watersmeet.errors import SqlError
from watersmeet.model.catalog import Catalog
from watersmeet.plan.functions import AGGREGATES, FUNCTIONS, scalar_name
from watersmeet.runtime.script import read_script
from watersmeet.session import Query
from watersmeet.sql import bind, parse_script
from watersmeet.sql.syntax import CreateStream, CreateTable

ROOT = Path(__file__).parents[2]
README, LANGUAGE = ROOT / "README.md", ROOT / "docs" / "language.md"
OPTIMIZER = ROOT / "docs" / "optimizer.md"
LAB = ROOT / "docs" / "lab.md"
SHEDDING = ROOT / "docs" / "shedding.md"
COMING_FROM, TESTING = ROOT / "docs" / "coming_from.md", ROOT / "docs" / "testing.md"
DURABLE = ROOT / "docs" / "durable.md"
WITH_PYTHON = [
    README, COMING_FROM, ROOT / "docs" / "python.md", SHEDDING, TESTING, LAB, DURABLE,
    ROOT / "docs" / "connectors.md", ROOT / "docs" / "several_queries.md", ROOT / "docs" / "changing_queries.md",
    ROOT / "docs" / "savepoints.md",
]  # fmt: skip
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and text."""
    return BLOCK.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: path.name)
def test_the_python_of_a_page_prints_what_it_says(path: Path) -> None:
    names: dict[str, object] = {}
    found = blocks(path)
    for (language, code), (following, text) in zip(found, [*found[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(path), "exec"), names)
        assert printed.getvalue() == (text if following == "text" and printed.getvalue() else "")


def test_the_tests_of_the_page_on_testing_pass() -> None:
    names: dict[str, Any] = {}
    exec("\n".join(code for language, code in blocks(TESTING) if language == "python"), names)
    tests = [found for name, found in names.items() if name.startswith("test_")]
    assert len(tests) == 4
    for test in tests:
        test()


def test_the_query_of_the_readme_gives_its_rows_and_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    script = (ROOT / "examples" / "checkout.sql").read_text()
    query = next(text for language, text in blocks(README) if language == "sql")
    rows = next(text for _, text in blocks(README) if text.startswith("id   page"))
    plan = next(text for _, text in blocks(OPTIMIZER) if text.startswith("select: o.id, c.page"))
    assert query in script
    assert call("run", "examples/checkout.sql", "--quiet", "--engine", "local") == 0
    printed = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert printed == [re.split(r"\s{2,}", line) for line in rows.splitlines()]
    (job,) = read_script(script)
    assert Query(job.plan).explain() == plan


def test_the_plan_in_bounded_memory_is_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = blocks(SHEDDING)
    script = tmp_path / "bounded.sql"
    script.write_text(next(text for language, text in shown if language == "sql" and "lab:zipf" in text))
    assert call("explain", str(script), "--analyze") == 0
    assert next(text for _, text in shown if text.startswith("in bounded memory")) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("p.order_id", "p.oder_id"), (" AND DWINDOW (o, p) = 10 MINUTES", "")],
    ids=["a misspelt column", "a missing window"],
)
def test_the_errors_of_the_readme_are_real(monkeypatch: pytest.MonkeyPatch, right: str, wrong: str) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SqlError) as caught:
        read_script((ROOT / "examples" / "checkout.sql").read_text().replace(right, wrong))
    assert ("text", f"{caught.value}\n") in blocks(README)


@pytest.mark.parametrize("page", [LANGUAGE, COMING_FROM], ids=lambda page: page.name)
def test_the_queries_of_a_page_are_valid(page: Path) -> None:
    """The first block declares the streams; the other SQL blocks are queries over them."""
    first, *queries = [text for language, text in blocks(page) if language == "sql"]
    catalog = declared(first)
    for text in queries:
        for query in filter(str.strip, text.split(";")):
            bind(query, catalog)


def test_the_sources_of_the_lab_can_be_declared_and_its_algorithms_asked_for() -> None:
    """Sources are opened, so that their names, streams and parameters must be right."""
    script, *queries = [text for language, text in blocks(LAB) if language == "sql"]
    names = ["bid", "r", "s"]
    assert [job.name for job in read_script(script + ";".join(f"SELECT * FROM {name}" for name in names))]
    catalog = declared(next(text for language, text in blocks(LANGUAGE) if language == "sql"))
    assert queries
    assert all(Query(bind(query, catalog)).explain() for text in queries for query in text.split(";"))


def test_the_page_of_the_lab_names_every_workload_and_command() -> None:
    from watersmeet.lab.cli import app
    from watersmeet.lab.workloads import WORKLOADS

    text = LAB.read_text(encoding="utf-8")
    assert [name for name in WORKLOADS if f"| `{name}` |" not in text] == []
    commands = [one.name or (one.callback.__name__ if one.callback else "") for one in app.registered_commands]
    assert [name for name in commands if f"watersmeet lab {name}" not in text] == []


def test_the_page_about_python_names_all_that_is_public() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert [name for name in wm.__all__ if not re.search(rf"\b{name}\b", text)] == []


def declared(script: str) -> Catalog:
    from watersmeet.runtime.declaring import declare
    from watersmeet.sql.declarations import declaration_of

    catalog = Catalog()
    for statement in parse_script(script):
        if isinstance(statement, CreateStream | CreateTable):
            declare(declaration_of(statement, script), catalog, open_sources=False)
    return catalog


def test_the_language_reference_names_every_function() -> None:
    text = LANGUAGE.read_text(encoding="utf-8")
    functions = [name.upper() for name in FUNCTIONS if scalar_name(name)] + [name.upper() for name in AGGREGATES]
    untold = [name for name in functions if f"`{name}(" not in text]
    assert not untold, f"docs/language.md has a table of functions; it lacks {untold}"


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_exist(name: str) -> None:
    """With their folder, or where a folder was named before by their names alone."""
    text = (ROOT / name).read_text(encoding="utf-8")
    known = {path.name for home in ("src", "tests") for path in (ROOT / home).rglob("*.py")} | {"hatch_build.py"}
    shown = {"logs.py", "test_logs.py"}
    assert sorted(set(re.findall(r"`(\w+\.py)`", text)) - known - shown) == []
    named = re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", text)
    made_later = {"benchmarks/results/"}
    homes = (ROOT, ROOT / "src" / "watersmeet")
    assert named
    assert [
        path for path in named if path not in made_later and not any((home / path).exists() for home in homes)
    ] == []
