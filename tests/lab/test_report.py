"""The report: built from results alone, the same each time, and its verdicts follow the numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import call
from watersmeet.lab import registry, store
from watersmeet.lab.cards import CARDS
from watersmeet.lab.circumstances import circumstances, origin, times, title
from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.groups import is_figure
from watersmeet.lab.papers.spread import spread_panel
from watersmeet.lab.provenance import PACKAGE
from watersmeet.lab.readings import CITED, READINGS
from watersmeet.lab.report import plots, write_report
from watersmeet.lab.report.page import _measured


def experiment(name: str) -> Experiment:
    def run(trial: ExperimentTrial) -> Result:
        curve = Panel("curve", "x (rows)", "y", [1, 2, 3], {"A": [1.0, 2.0, trial.seed], "B": [0.5, None, 1.5]})
        bars = Panel("bars | words", "plan", "cost", ["one", "two"], {"A": [1.0, 2.0]}, bars=True, y_log=True)
        return Result([curve, bars], {"answer": 42.0})

    right = Check("the answer is 42", lambda result: result.numbers["answer"] == 42)
    lower = Check("B is below A", lambda result: result.panels[0].lines["B"][0] < 1, degree=True, why="B is odd")  # type: ignore[operator]
    settings = {"small": {"n": 1}, "paper": {"n": 1000}}
    return Experiment(name, "DGR03", f"figure {name}", "A is <larger> than B", settings, run, (right, lower))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of one experiment at two scales, as the current folder; a second was never run."""
    known = {name: experiment(name) for name in ("D-E3", "D-E4")}
    monkeypatch.setattr(registry, "experiments", lambda: known)
    monkeypatch.chdir(tmp_path)
    assert call("lab", "run", "D-E3", "--quiet") == 0
    assert call("lab", "run", "D-E3", "--scale", "paper", "--quiet") == 0
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_report_built_twice_is_identical(folder: Path) -> None:
    write_report(folder / "results", folder / "first", registry.experiments())
    write_report(folder / "results", folder / "second", registry.experiments())
    made = files(folder / "first")
    assert set(made) == {
        "reproduction.md", "reproduction.html",
        *(f"reproduction/D-E3-{name}.svg" for name in ("1", "2", "small")),
    }  # fmt: skip
    assert made == files(folder / "second")


def test_what_is_said_of_the_machine_stands_above_the_verdicts(folder: Path) -> None:
    (folder / "results" / "conditions.txt").write_text("Other work\nwent on meanwhile.\n")
    write_report(folder / "results", folder / "docs", registry.experiments())
    text = (folder / "docs" / "reproduction.md").read_text()
    assert text.index("How verdicts come about") < text.index("Other work went on meanwhile.") < text.index("All runs")


def test_a_changed_number_changes_the_verdict(folder: Path) -> None:
    assert call("lab", "report") == 0
    before = Path("docs/reproduction.md").read_text()
    assert "| figure D-E3 | reproduced (seed 1) | reproduced (seed 1) |" in before
    record = store.find(Path("results"), "D-E3", "paper", 1)
    assert record is not None
    panel = record.result.panels[0]
    odd = replace(panel, lines={**panel.lines, "B": [7.0, None, 7.0]})
    store.save(Path("results"), replace(record, result=Result([odd], record.result.numbers)))
    call("lab", "report")
    text = Path("docs/reproduction.md").read_text()
    assert "| reproduced (seed 1) | reproduced with a difference (seed 1) |" in text
    assert "- **failed** (degree): B is below A. Why: B is odd." in text
    assert not Path("docs/reproduction/D-E3-2.svg").exists()
    store.save(Path("results"), replace(record, result=Result(record.result.panels, {"answer": 41.0})))
    call("lab", "report")
    for page in ("docs/reproduction.md", "docs/reproduction.html"):
        assert "not reproduced" in Path(page).read_text()
    assert "**failed** (statement): the answer is 42." in Path("docs/reproduction.md").read_text()


def test_the_page_of_the_paper_scale_comes_first_and_the_others_are_listed(folder: Path) -> None:
    call("lab", "report")
    text = Path("docs/reproduction.md").read_text()
    assert "at the paper scale with seed 1 (" in text
    assert "| n | 1,000 | the paper |" in text
    assert re.search(r"^\| small, seed 1 \| reproduced \| [\d.]+ \| none \|$", text, re.MULTILINE)
    assert "| [D-E4](#D-E4) | figure D-E4 | not run | not run |" in text


def test_the_html_page_needs_no_other_file(folder: Path) -> None:
    call("lab", "report")
    text = Path("docs/reproduction.html").read_text()
    assert text.count("data:image/svg+xml;base64,") == 3
    assert set(re.findall(r'href="([^"]+)"', text)) == {"#D-E3", "#D-E4"}
    assert not re.search(r'src="(?!data:)|<script|url\(|@import', text)
    assert "A is &lt;larger&gt; than B" in text


def test_without_results_there_is_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("lab", "report") == 2
    assert "there are no results in results" in capsys.readouterr().err


def test_real_experiments_make_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("lab", "run", "D-W1", "D-W2", "D-E3", "--strict", "--quiet") == 0
    assert call("lab", "report") == 0
    text = Path("docs/reproduction.md").read_text()
    assert re.search(r"^\| \[D-W2\]\(#D-W2\) \|.*\| reproduced \(seed 1\) \|$", text, re.MULTILINE)
    assert re.search(r"^\| \[D-E3\]\(#D-E3\) \|.*\| reproduced with a difference \(seed 1\) \|$", text, re.MULTILINE)
    header = next(line for line in text.splitlines() if line.startswith("| memory size (rows) |"))
    assert {"EXACT", "OPT", "PROB", "LIFE", "RAND", "PROB, model"} <= set(header.split(" | "))
    drawn = {path.name for path in Path("docs/reproduction").iterdir()}
    assert drawn == {"D-W2-1.svg", "D-E3-1.svg", "D-E3-small.svg"}


def test_every_paper_has_a_card_whose_files_exist() -> None:
    assert {one.paper for one in registry.experiments().values()} <= set(CARDS)
    assert [file for card in CARDS.values() for file in card.files if not (PACKAGE / file).exists()] == []


def drawn(panel: Panel) -> str:
    return plots._draw(panel, {name: number for number, name in enumerate(panel.lines)})


def test_bars_on_a_logarithmic_axis_become_points() -> None:
    bars = Panel("t", "plan", "cost", ["one", "two"], {"A": [1.0, 100.0], "B": [2.0, None]}, bars=True)
    points = replace(bars, y_log=True)
    # Bars are patches, points are markers of a line.
    assert "line2d_" in drawn(points)
    assert drawn(bars).count('id="patch_') - drawn(points).count('id="patch_') == 6  # with two in the legend


@pytest.mark.parametrize(("x", "whole"), [((1, 2, 3), True), ((1, 2.5, 3), False)])
def test_between_counts_there_are_no_ticks(x: tuple[float, ...], whole: bool) -> None:
    svg = drawn(Panel("t", "streams", "y", x, {"A": [0.1, 0.25, 0.33]}))
    ticks = re.findall(r">([\d.]+)</text>", svg.split("matplotlib.axis_2")[0])
    assert ticks
    assert all(float(tick).is_integer() for tick in ticks) == whole


def test_a_spread_is_drawn_and_stands_in_the_table() -> None:
    panel = spread_panel("t", "rows", "seconds", [1, 2], {"A": [[3.0, 1.0, 2.0], [5.0]]}, more={"model": [2.0, None]})
    table = _measured(panel)
    assert table.rows == (("1", "2 (1 to 3)", "2"), ("2", "5 (5 to 5)", ""))
    plain = replace(panel, low={}, high={})
    assert drawn(panel).count("LineCollection") == drawn(plain).count("LineCollection") + 1


def test_a_spread_must_hold_its_line() -> None:
    with pytest.raises(ValueError, match="outside of 2 to 3"):
        Panel("t", "x", "y", [1], {"A": [1]}, low={"A": [2]}, high={"A": [3]})
    with pytest.raises(ValueError, match="must be of the same lines"):
        Panel("t", "x", "y", [1], {"A": [1]}, low={"B": [2]}, high={"B": [3]})


def test_a_panel_that_is_a_table_only_is_not_drawn(folder: Path) -> None:
    (record, *_) = store.records(Path("results"))
    panel = replace(record.result.panels[0], table_only=True)
    store.save(Path("results"), replace(record, scale="paper", result=Result([panel], record.result.numbers)))
    call("lab", "report")
    assert [path.name for path in Path("docs/reproduction").iterdir()] == ["D-E3-small.svg"]
    text = Path("docs/reproduction.md").read_text()
    assert "| x (rows) | A | B |" in text
    assert "![" not in text


def test_reasons_and_notes_stand_there_whether_a_check_holds_or_not(folder: Path) -> None:
    known = registry.experiments()
    noted = replace(known["D-E3"].checks[0], note="only a toy", timed=True)
    known["D-E3"] = replace(known["D-E3"], checks=[noted, known["D-E3"].checks[1]])
    call("lab", "report")
    text = Path("docs/reproduction.md").read_text()
    assert "- **held** (statement, time): the answer is 42. Note: only a toy." in text
    assert "- **held** (degree): B is below A. Where it fails: B is odd." in text


def test_what_other_code_measured_is_called_stale(folder: Path) -> None:
    call("lab", "report")
    assert "All 2 runs are of the present code." in " ".join(Path("docs/reproduction.md").read_text().split())
    record = store.find(Path("results"), "D-E3", "paper", 1)
    assert record is not None
    store.save(Path("results"), replace(record, code="0123456789abcdef"))
    call("lab", "report")
    text = " ".join(Path("docs/reproduction.md").read_text().split())
    assert "| figure D-E3 | reproduced (seed 1) | reproduced, stale (seed 1) |" in text
    assert "It ran through older code, or with other settings." in text
    assert "1 of 2 runs are stale." in text
    assert "1 of these runs are stale." in text


def test_verdicts_of_several_seeds_stand_side_by_side(folder: Path) -> None:
    call("lab", "run", "D-E3", "--seeds", "2,3", "--quiet")
    (odd,) = [one for one in store.records(Path("results")) if one.seed == 3]
    store.save(Path("results"), replace(odd, result=Result(odd.result.panels, {"answer": 41.0})))
    call("lab", "report")
    text = Path("docs/reproduction.md").read_text()
    assert "| figure D-E3 | reproduced (seeds 1, 2); not reproduced (seed 3) | reproduced (seed 1) |" in text


def test_a_page_begins_with_a_line_for_each_figure_and_folds_the_rest(folder: Path) -> None:
    known = registry.experiments()
    known["D-E3"] = replace(known["D-E3"], found=lambda result: f"the answer is {result.numbers['answer']:.0f}")
    known["D-W1"] = replace(known["D-E3"], id="D-W1")
    known["D-O1"] = replace(known["D-E3"], id="D-O1")
    assert call("lab", "run", "D-W1", "D-O1", "--quiet") == 0
    call("lab", "report")
    text = Path("docs/reproduction.md").read_text()
    summary, _, rest = text.partition("<details>")
    assert "1 figures and tables" not in summary
    assert "2 figures and tables of five papers, run again on this engine: **1 reproduced**, **1 not run**." in (
        " ".join(summary.split())
    )
    (row,) = [line for line in summary.splitlines() if line.startswith("| [D-E3]")]
    assert row == (
        "| [D-E3](#D-E3) figure D-E3 | “A is <larger> than B” | the answer is 42 | **reproduced** | "
        '<img src="reproduction/D-E3-small.svg" alt="D-E3 in small" width="96"> |'
    )
    # What is no figure is counted apart, and what is ours holds or does not.
    assert "| worked examples | 1 | 1 reproduced: [D-W1](#D-W1) |" in summary
    assert "| extensions | 1 | 1 holds: [D-O1](#D-O1) |" in summary
    assert "![" not in summary
    assert rest.count("</details>") == text.count("<details>")
    html = Path("docs/reproduction.html").read_text()
    assert html.count("<details>") == html.count("</details>") == text.count("<details>")
    assert '<tr class="reproduced"><td><a href="#D-E3">D-E3</a> figure D-E3</td>' in html


def test_a_verdict_is_that_of_most_seeds_and_says_how_many_they_were(folder: Path) -> None:
    call("lab", "run", "D-E3", "--scale", "paper", "--seeds", "2,3", "--quiet")
    (odd,) = [one for one in store.records(Path("results")) if one.scale == "paper" and one.seed == 1]
    store.save(Path("results"), replace(odd, result=Result(odd.result.panels, {"answer": 41.0})))
    call("lab", "report")
    text = Path("docs/reproduction.md").read_text()
    assert "**reproduced (2 of 3 seeds)**" in text
    assert "**Reproduced (2 of 3 seeds)**, at the paper scale with seed 1" in text


def test_numbers_of_an_earlier_version_are_to_be_measured_again(folder: Path) -> None:
    """A check that cannot read what another version of the experiment measured does not end the report."""
    record = store.find(Path("results"), "D-E3", "paper", 1)
    assert record is not None
    store.save(Path("results"), replace(record, code="0123456789abcdef", result=Result(record.result.panels, {})))
    call("lab", "report")
    text = " ".join(Path("docs/reproduction.md").read_text().split())
    assert "The run at the paper scale with seed 1 is of an earlier version of this experiment" in text
    assert "| figure D-E3 | reproduced (seed 1) | to be measured again |" in text
    assert "**reproduced, small scale**" in text
    store.save(Path("results"), replace(record, result=Result(record.result.panels, {})))
    assert call("lab", "report") == 1  # of the present code it is the checks that are wrong


def test_the_summary_of_the_docs_is_short_and_has_every_figure() -> None:
    """Two screens: what stands above the first thing that is folded, in short lines."""
    text = (PACKAGE.parents[1] / "docs" / "reproduction.md").read_text(encoding="utf-8")
    summary, folded, rest = text.partition("<details>")
    rows = [line.split(" | ") for line in summary.splitlines() if re.match(r"\| \[[\w-]+\]\(#", line)]
    assert [row[0].split("]")[0].removeprefix("| [") for row in rows] == [
        one.id for one in registry.experiments().values() if is_figure(one)
    ]
    assert max(len(row[1]) for row in rows) <= 200
    assert max(len(row[2]) for row in rows) <= 130
    assert len(summary.split()) < 2500
    assert rest.count("</details>") == rest.count("<details>") + len([folded])
    # Plots and numbers are folded away: what is seen of an experiment is what it claims and what came out.
    seen = re.sub(r"<details>.*?</details>", "", folded + rest, flags=re.DOTALL)
    assert "![" not in seen
    assert "|--:|" not in seen


def test_what_is_stale_or_was_not_run_fails_a_strict_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "report", "--strict") == 1
    assert "D-E4: not run\n1 of 2 experiments" in capsys.readouterr().out
    assert not Path("docs").exists()
    assert call("lab", "run", "D-E4", "--quiet") == 0
    capsys.readouterr()
    assert call("lab", "report", "--strict") == 1
    assert "D-E4: run at a smaller scale than the paper's\n" in capsys.readouterr().out
    assert call("lab", "run", "D-E4", "--scale", "paper", "--quiet") == 0
    assert call("lab", "report", "--strict") == 0
    record = store.find(Path("results"), "D-E3", "paper", 1)
    assert record is not None
    store.save(Path("results"), replace(record, code="0123456789abcdef"))
    capsys.readouterr()
    assert call("lab", "report", "--strict") == 1
    assert capsys.readouterr().out.startswith("D-E3: stale\n")


def test_every_statement_of_a_figure_has_the_words_of_the_paper() -> None:
    figures = [one for one in registry.experiments().values() if is_figure(one)]
    assert len(figures) == 38
    for one in figures:
        assert one.found is not None
        for check in one.checks:
            assert check.elsewhere or check.words, check.says


def test_every_experiment_that_looks_at_time_says_what_a_time_is() -> None:
    for one in registry.experiments().values():
        assert bool(times(one)) == any(check.timed for check in one.checks)
    assert "compiled loops alone" in times(registry.experiments()["K05-E4"])
    assert "slowest tenth" in times(registry.experiments()["H04-E10"])


def test_the_page_says_what_is_generated_and_how_ambiguous_places_are_read(folder: Path) -> None:
    known = registry.experiments()
    known["D-E3"] = replace(
        known["D-E3"], data="real: a diary", reconstructed={"n": "as many as fit (AMB-30)", "query": "made up"}
    )
    known["D-E4"] = replace(known["D-E4"], data="generated: dice")
    call("lab", "report")
    text = Path("docs/reproduction.md").read_text()
    top, _, rest = text.partition("Ambiguous places of the papers")
    assert "1 run over streams that are generated here, from a seed, 1 run over real data" in " ".join(top.split())
    assert "| real: a diary | [D-E3](#D-E3) |" in top
    assert "| n | 1,000 | reconstructed: as many as fit (AMB-30) |" in rest
    assert "| query |  | reconstructed: made up |" in rest
    assert re.search(
        r"^\| AMB-30 \| DGR03 \| LIFE is .* \| \[D-E3\]\(#D-E3\), `lab/papers/dgr03.*`.* \|$", rest, re.MULTILINE
    )


@pytest.mark.parametrize("one", registry.experiments().values(), ids=lambda one: one.id)
def test_every_experiment_says_what_it_shows_and_over_which_data(one: Experiment) -> None:
    assert circumstances(one).data
    assert len(title(one).split()) > 3  # more than the number of a figure


def test_what_the_code_cites_is_among_the_readings() -> None:
    sources = [path for path in PACKAGE.rglob("*.py") if path.name != "readings.py"]
    cited = {name for path in sources for name in CITED.findall(path.read_text(encoding="utf-8"))}
    assert "AMB-30" in cited
    assert cited <= set(READINGS)
    assert list(READINGS) == [f"AMB-{number:02}" for number in range(1, 36)]


@pytest.mark.parametrize(
    ("name", "setting", "whose"),
    [
        ("D-E3", "window", "the paper"),
        ("GO03-E2", "windows", "the paper"),
        ("GO03-E2", "units", "ours"),
        ("H04-E16", "windows", "ours"),
        ("H02-E7-flights", "window", "ours"),
        ("D-E7s", "maps", "ours"),
        ("K05-O2", "rates", "ours"),
        ("H02-W1", "named", "the paper"),
    ],
)
def test_a_setting_is_the_papers_only_where_the_paper_gives_it(name: str, setting: str, whose: str) -> None:
    assert origin(registry.experiments()[name], setting).startswith(whose)
