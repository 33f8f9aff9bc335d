"""What of the papers is covered: the table is whole, what it points to exists, and what it tells to type runs."""

from __future__ import annotations

import ast
import shlex
import warnings
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import watersmeet as wm
from tests.unit.cli.test_commands import call
from watersmeet.errors import CatalogError
from watersmeet.lab import registry
from watersmeet.lab.coverage import table
from watersmeet.lab.coverage.page import coverage_page
from watersmeet.lab.coverage.statements import Statement, statements, tally_of_figures
from watersmeet.lab.coverage.table import CoverageRow, items, rows

TOP = Path(__file__).parents[2]
SECOND = 1_000_000
ROWS = 60


def stream(seed: int) -> pa.Table:
    """Rows that meet now and then; those of each stream a little later than those of the one before."""
    numbers = range(ROWS)
    return pa.table(
        {
            "k": pa.array([(seed + n * n) % 5 for n in numbers], pa.int64()),
            "v": pa.array([(n + seed * n) % 7 for n in numbers], pa.int64()),
            "ts": pa.array([n * SECOND + seed for n in numbers], pa.timestamp("us")),
        }
    )


STREAMS = {name: stream(number) for number, name in enumerate("abcd")}


def session() -> wm.Session:
    made = wm.Session()
    for name, rows_of in STREAMS.items():
        made.stream(name, rows_of, time="ts")
    made.table("t", pa.table({"k": pa.array(range(3), pa.int64())}))
    for name in ("a_keys", "b_keys"):
        made.table(name, pa.table({"k": range(5), "frequency": range(1, 6)}))
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the streams as files, as the current one."""
    monkeypatch.chdir(tmp_path)
    for name, rows_of in STREAMS.items():
        pyarrow.csv.write_csv(rows_of, f"{name}.csv")
    return tmp_path


def reached() -> dict[str, list[str]]:
    """Everything that the table tells to type, once, and the rows that do."""
    found: dict[str, list[str]] = {}
    for row in rows():
        found.setdefault(row.reached, []).append(row.item.id)
    return found


def by_text(how: str) -> list[object]:
    texts = {row.reached for row in rows() if row.how == how}
    return [pytest.param(text, id=ids[0]) for text, ids in reached().items() if text in texts]


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((TOP / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_the_catalogue_has_171_items_and_each_has_a_row() -> None:
    assert len(items()) == 171
    assert [row.item for row in rows()] == items()
    assert len({item.id for item in items()}) == 171


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.item.id)
def test_what_a_row_points_to_exists(row: CoverageRow) -> None:
    assert [path for path in row.where if not (TOP / path).exists()] == []
    for name in row.shown:
        path, sign, test = name.partition("::")
        if sign:
            assert test.partition("[")[0] in functions_in(path)
        elif name.startswith("tests/"):
            assert (TOP / name).is_file()
        else:
            assert name in registry.experiments()


@pytest.mark.parametrize("text", by_text("command"))
def test_every_command_runs(text: str, folder: Path) -> None:
    words = shlex.split(text)[1:]
    assert call(*words) == 0
    if words[:2] == ["lab", "run"]:
        assert [path.name for path in Path("results/small").iterdir()] == [f"{words[2]}-seed1.json"]


@pytest.mark.parametrize("text", by_text("sql"))
def test_every_query_runs(text: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "late_rows")
        answer = session().sql(text).to_arrow()
    assert answer.num_rows > 0


@pytest.mark.parametrize("text", by_text("python"))
def test_every_line_of_python_runs(text: str, folder: Path) -> None:
    exec(text, {"wm": wm, "session": session(), "pa": pa, **STREAMS})


def test_the_page_is_what_the_table_makes() -> None:
    """`watersmeet lab coverage --write` does."""
    report = (TOP / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert (TOP / "docs" / "coverage.md").read_text(encoding="utf-8") == coverage_page(
        report, statements(TOP / "results")
    )


def test_the_command_writes_the_page_and_shows_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "coverage", "--write") == 0
    assert Path("docs/coverage.md").read_text(encoding="utf-8") == coverage_page("", {})
    capsys.readouterr()
    assert call("lab", "coverage", "k05-a2") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("K05-A2: WHJ windowed hash join (algorithm)\n  where ")
    assert "  reach " in printed
    assert call("lab", "coverage") == 0
    printed = capsys.readouterr().out
    assert "\n171 rows: " in printed
    assert "\n38 figures and tables: 0 run at the paper's setting" in " ".join(printed.split(" "))
    assert call("lab", "coverage", "K05-A99") == 2
    assert "nothing in the catalogue is called 'K05-A99'" in capsys.readouterr().err


def test_a_table_that_lacks_a_row_or_has_one_too_many_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = table.items
    monkeypatch.setattr(table, "items", lambda: [*real()[1:], table.Item("X-1", "K05", "nothing", "open")])
    with pytest.raises(CatalogError, match="lack X-1, and have K05-S1 that is not in the catalogue"):
        table.rows.__wrapped__()


def test_a_figure_that_runs_and_does_not_hold_is_no_clean_yes() -> None:
    """It is here, and it was run; that the statement did not hold stands in a column and a count of its own."""
    found = {"H04-E14": Statement("yes (by older code)", "no"), "K05-E7": Statement("no, at a smaller one", "yes")}
    page = coverage_page("", found)
    (row,) = [line for line in page.splitlines() if line.startswith("| **H04-E14** |")]
    assert row.endswith("| yes | yes (by older code) | no |")
    (row,) = [line for line in page.splitlines() if line.startswith("| **H04-E15** |")]
    assert row.endswith("| yes | not run | not run |")
    (counts,) = [line for line in page.splitlines() if line.startswith("| [H04](#H04) | 7 |")]
    assert counts == "| [H04](#H04) | 7 | 1 | 0 | 0 | 1 | 6 |"
    assert tally_of_figures(rows(), found) == (
        "38 figures and tables: 1 run at the paper's setting; the statement held of 1, in part of 0, not of 1; "
        "36 not run"
    )


def test_what_was_measured_decides_and_what_the_paper_leaves_open_is_named() -> None:
    found = statements(TOP / "results")
    assert {row.item.id for row in rows() if row.item.kind == "experiment"} <= set(found)
    assert "chosen here: rates" in found["K05-E4"].ran
    assert statements(TOP / "no results") == {}
