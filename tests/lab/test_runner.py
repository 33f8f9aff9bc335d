"""The lab's commands: what was measured is kept and not measured again; what breaks is told, and the rest goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.test_commands import call
from watersmeet.errors import DataError, SetupError
from watersmeet.lab import provenance, registry, runner, store
from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.jobs import Job, is_current
from watersmeet.lab.progress import Bars
from watersmeet.lab.provenance import commit, fingerprint, machine
from watersmeet.lab.reach import reachable


@dataclass
class Toy:
    """Experiments that count how often they run."""

    runs: list[str] = field(default_factory=list)

    def experiment(self, name: str, value: float = 1.0, paper: str = "TOY") -> Experiment:
        def run(trial: ExperimentTrial) -> Result:
            self.runs.append(name)
            trial.tell(1, 2)
            line = {"a": [np.float64(value), None], "b": [np.int64(trial.seed), 2]}
            return Result([Panel("t", "x", "y", range(2), line)], {"value": value})

        large = Check("it is positive", lambda result: result.numbers["value"] > 0)
        exact = Check("it is 1", lambda result: result.numbers["value"] == 1, degree=True, why="it need not be")
        return Experiment(
            name, paper, "a toy", "nothing", {"small": {"n": (1, 2)}, "paper": {"n": 9}}, run, (large, exact)
        )


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Toy:
    monkeypatch.chdir(tmp_path)
    made = Toy()
    known = {
        one.id: one
        for one in (made.experiment("T-1"), made.experiment("T-2", 2.0), made.experiment("U-1", -1.0, "UNI"))
    }
    monkeypatch.setattr(registry, "experiments", lambda: known)
    return made


def test_every_verdict_is_told_with_the_checks_that_failed(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "run", "all") == 0
    printed = capsys.readouterr().out
    assert "T-1: holds (" in printed
    assert "T-2: holds in part (" in printed
    assert "  failed, a degree: it is 1\n    it need not be\n" in printed
    assert "U-1: does not hold (" in printed
    assert "3 experiments: 1 holds, 1 holds in part, 1 does not hold" in printed


def test_strict_fails_on_what_is_not_reproduced_only(toy: Toy) -> None:
    assert call("lab", "run", "TOY", "--strict") == 0
    assert call("lab", "run", "all", "--strict") == 1


def test_what_was_measured_is_not_measured_again(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    call("lab", "run", "T-1")
    call("lab", "run", "toy")
    assert toy.runs == ["T-1", "T-2"]
    assert "T-1: holds (measured before)" in capsys.readouterr().out
    call("lab", "run", "T-1", "--force")
    call("lab", "run", "T-1", "--seed", "2")
    call("lab", "run", "T-1", "--scale", "paper")
    call("lab", "run", "T-1", "--results", "elsewhere")
    assert toy.runs == ["T-1", "T-2", "T-1", "T-1", "T-1", "T-1"]


@pytest.mark.parametrize("changed", [{"code": "another"}, {"settings": {"n": [1, 3]}}], ids=["code", "settings"])
def test_other_code_or_settings_measure_anew(toy: Toy, changed: dict[str, object]) -> None:
    call("lab", "run", "T-1")
    (record,) = store.records(Path("results"))
    store.save(Path("results"), replace(record, **changed))  # type: ignore[arg-type]
    call("lab", "run", "T-1")
    assert toy.runs == ["T-1", "T-1"]


def test_a_result_says_where_it_comes_from_and_names_no_host(toy: Toy) -> None:
    call("lab", "run", "T-1", "--seed", "5")
    content = json.loads(Path("results/small/T-1-seed5.json").read_text())
    assert content["settings"] == {"n": [1, 2]}
    assert content["seed"] == 5
    assert content["code"] == fingerprint(content["modules"])
    assert content["commit"] == commit()
    assert set(content["machine"]) == {"cores", "python", "arch", "system"} == set(machine())
    assert content["result"]["panels"][0]["lines"] == {"a": [1.0, None], "b": [5, 2]}


def test_a_broken_experiment_is_told_and_the_others_run(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(trial: ExperimentTrial) -> Result:
        raise ZeroDivisionError("oh")

    known = registry.experiments()
    monkeypatch.setitem(known, "T-1", replace(known["T-1"], run=breaks))
    assert call("lab", "run", "all") == 1
    printed = capsys.readouterr().out
    assert "T-1: broken: ZeroDivisionError: oh" in printed
    assert toy.runs == ["T-2", "U-1"]
    assert not Path("results/small/T-1-seed1.json").exists()


def test_what_is_not_a_number_breaks_the_experiment(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    known = registry.experiments()
    known["T-1"] = toy.experiment("T-1", float("nan"))
    assert call("lab", "run", "T-1") == 1
    assert "is no number" in capsys.readouterr().out
    assert list(Path("results").rglob("*.json*")) == []


def test_what_is_not_installed_is_skipped(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    def lacks(trial: ExperimentTrial) -> Result:
        raise SetupError("there is no data", hint="install it")

    known = registry.experiments()
    known["T-1"] = replace(known["T-1"], run=lacks)
    assert call("lab", "run", "TOY", "--strict") == 0
    assert "T-1: skipped: there is no data; install it\nT-2: " in capsys.readouterr().out


def test_a_scale_that_an_experiment_does_not_have_is_skipped(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "run", "T-1", "--scale", "100x") == 0
    assert capsys.readouterr().out == "T-1: skipped: it has no scale 100x; it has small, paper\n"
    assert toy.runs == []


def test_ctrl_c_keeps_what_was_measured_and_the_next_run_goes_on(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(trial: ExperimentTrial) -> Result:
        raise KeyboardInterrupt

    known = registry.experiments()
    second = known["T-2"]
    known["T-2"] = replace(second, run=interrupted)
    assert call("lab", "run", "all") == 130
    assert "the same command goes on" in capsys.readouterr().err
    known["T-2"] = second
    assert call("lab", "run", "all") == 0
    assert toy.runs == ["T-1", "T-2", "U-1"]


def test_a_file_is_whole_or_not_there(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    call("lab", "run", "T-1")
    (record,) = store.records(Path("results"))

    def full(self: Path, target: Path) -> Path:
        raise OSError("disk full")

    before = Path("results/small/T-1-seed1.json").read_text()
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        store.save(Path("results"), replace(record, seconds=99.0))
    assert [path.name for path in Path("results/small").iterdir()] == ["T-1-seed1.json"]
    assert Path("results/small/T-1-seed1.json").read_text() == before


def test_a_file_that_is_no_result_is_told(toy: Toy) -> None:
    Path("results/small").mkdir(parents=True)
    Path("results/small/T-1-seed1.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read as a result of the lab"):
        store.records(Path("results"))


def test_numbers_of_another_version_are_told(toy: Toy) -> None:
    one = registry.experiments()["T-1"]
    job = Job(replace(one, run=lambda trial: Result()))
    outcome = next(runner.run_all([job], runner.LabChoices(), lambda _: lambda a, b: None))
    assert isinstance(outcome.error, DataError)
    assert "cannot read its numbers" in str(outcome.error)


def test_an_unknown_name_is_told_with_what_is_near(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "run", "T-1", "t-22") == 2
    assert "there is no experiment or paper 't-22'\nhint: did you mean T-2" in capsys.readouterr().err
    assert toy.runs == []


def test_the_list_shows_ids_and_scales(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "list", "uni") == 0
    assert capsys.readouterr().out == "U-1  small paper  a toy\n"


@pytest.mark.parametrize("name", ["code", "modules"])
def test_results_of_before_there_were_modules_are_measured_anew(toy: Toy, name: str) -> None:
    call("lab", "run", "T-1")
    path = Path("results/small/T-1-seed1.json")
    content = json.loads(path.read_text())
    content[name] = ""
    path.write_text(json.dumps(content))
    call("lab", "run", "T-1")
    assert toy.runs == ["T-1", "T-1"]


def test_several_seeds_and_scales_run_once_each_and_go_on(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    call("lab", "run", "T-1", "--seed", "2", "--scale", "paper")
    capsys.readouterr()
    assert call("lab", "run", "toy", "--seeds", "1,2", "--scale", "paper", "--scale", "small") == 0
    printed = capsys.readouterr()
    told = [line.partition(" (")[0] for line in printed.out.splitlines() if line[:2] == "T-"]
    different = "holds in part"
    assert told == [
        "T-1, small, seed 1: holds", "T-1, small, seed 2: holds",
        f"T-2, small, seed 1: {different}", f"T-2, small, seed 2: {different}",
        "T-1, paper, seed 1: holds", "T-1, paper, seed 2: holds",
        f"T-2, paper, seed 1: {different}", f"T-2, paper, seed 2: {different}",
    ]  # fmt: skip
    assert len(toy.runs) == 8
    assert "8 runs: 4 holds, 4 holds in part" in printed.out
    assert "7 runs to measure, 1 need not: about" in printed.err


def test_of_several_scales_those_an_experiment_has_are_run(toy: Toy) -> None:
    assert call("lab", "run", "T-1", "--scale", "paper", "--scale", "100x") == 0
    assert toy.runs == ["T-1"]


@pytest.mark.parametrize(
    ("words", "told"),
    [(("--seeds", "1,x"), "--seeds 1,x is not a list of seeds"), (("--seeds", "1", "--seed", "1"), "both --seed and")],
)
def test_seeds_that_are_none_are_told(
    toy: Toy, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("lab", "run", "T-1", *words) == 2
    assert told in capsys.readouterr().err
    assert toy.runs == []


def test_an_estimate_runs_nothing_and_comes_from_earlier_runs(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    call("lab", "run", "T-1", "T-2")
    (first, second) = store.records(Path("results"))
    store.save(Path("results"), replace(first, seconds=100.0))
    store.save(Path("results"), replace(second, seconds=5.0, code="another"))
    capsys.readouterr()
    assert call("lab", "run", "all", "--estimate") == 0
    assert capsys.readouterr().out.splitlines() == [
        "T-1, small, seed 1: measured before",
        "T-2, small, seed 1: about 5 s",
        "U-1, small, seed 1: never run before",
        "2 runs to measure, 1 need not: about 5 s, by earlier runs; 1 never run before",
    ]
    # its settings do not tell that there would be more rows
    assert call("lab", "run", "T-1", "--scale", "paper", "--estimate") == 0
    assert "T-1, paper, seed 1: about 1 min 40 s, a guess from another scale" in capsys.readouterr().out
    assert toy.runs == ["T-1", "T-2"]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_bars_tell_what_runs_and_the_time_left(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (Job(one) for one in registry.experiments().values())
    monkeypatch.setenv("COLUMNS", "200")
    out = Terminal()
    with Bars(out, {first: 90.0, second: 30.0, third: None}) as bars:
        tell = bars.begin(first)
        tell(1, 2)
        bars._progress.refresh()
        bars.end()
        bars.begin(second)
        bars._progress.refresh()
    shown = out.getvalue()
    words = " ".join(shown.split())
    assert "about 1 min 15 s and 1 never run before left" in words
    assert "about 30 s and 1 never run before left" in words
    assert "small, seed 1" in words
    assert "1/3" in words


def test_a_module_reaches_what_functions_import_and_tables_name() -> None:
    k05 = reachable(["watersmeet.lab.papers.k05"])
    assert {
        "watersmeet.lab.papers.measuring",
        "watersmeet.papers.orders.cost_k05",
        "watersmeet.papers.joins.loops",  # named in plan/published.py
        "watersmeet.operators.join.window_join",
        "watersmeet.lab.papers",  # the package around it
    } <= k05
    assert not {"watersmeet.lab.papers.dgr03", "watersmeet.papers.shedding.static", "watersmeet.lab.report"} & k05


def test_an_edit_makes_stale_only_what_ran_through_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, as modules that other tests have loaded would count."""
    script = """
import sys
from pathlib import Path
from watersmeet.lab import registry, store
from watersmeet.lab.jobs import Job
from watersmeet.lab.runner import LabChoices, run_one
for name in ("K05-E8", "H04-W1"):
    run_one(Job(registry.experiments()[name]), LabChoices(Path(sys.argv[1])))
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=300)
    k05, h04 = _record(tmp_path, "K05-E8"), _record(tmp_path, "H04-W1")
    outer, grouping = "watersmeet.operators.outer.outer_join", "watersmeet.operators.continuous.group_by"
    assert outer in reachable(["watersmeet.lab.papers.k05"])  # it might, but did not
    through = {f"watersmeet.{name}" for name in k05.modules.split()}
    assert {"watersmeet.papers.joins.loops", "watersmeet.lab.papers.k05", "watersmeet.session"} <= through
    assert not {outer, grouping, "watersmeet.lab.papers.h04", "watersmeet.lab.runner"} & through
    assert grouping.removeprefix("watersmeet.") in h04.modules.split()

    known = registry.experiments()
    assert is_current(k05, known["K05-E8"])
    real, edited = provenance._sum, provenance.modules()[grouping]
    monkeypatch.setattr(provenance, "_sum", lambda path: "edited" if path == edited else real(path))
    assert is_current(k05, known["K05-E8"])
    assert not is_current(h04, known["H04-W1"])


def _record(folder: Path, name: str) -> store.Record:
    found = store.find(folder, name, "small", 1)
    assert found is not None
    return found
