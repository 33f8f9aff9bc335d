"""H04's experiments at sizes that are quick: their verdicts, that other numbers would give others, and that the same
seed gives the same waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.lab.doctoring import Miniatures, swapped, untimed, with_number, without_times
from watersmeet.lab.experiment import ExperimentTrial, Panel, Result, Verdict
from watersmeet.lab.papers import h02, h04, running
from watersmeet.lab.papers.h04 import EXPERIMENTS, ITA, NTA, QUERIES, TPA, asked, shop
from watersmeet.lab.papers.running import replay, times_to, weigh

TIMED = ("H04-E13", "H04-E16")  # nothing but time decides these
QUICK: dict[str, dict[str, Any]] = {
    "H04-E10": {"seconds": 15, "window": 3},
    "H04-E11": {"seconds": 30, "rates": (5, 30)},
    "H04-E12": {"hours": 0.25, "window": 120, "selectivities": (0.2, 1.0)},
    "H04-E13": {"seconds": 20, "window": 5, "outputs": (2000, 4000), "repeats": 1},
    "H04-E14": {"seconds": 15, "window": 3, "rates": (10, 30)},
    "H04-E15": {"seconds": 15, "window": 3, "selectivities": (0.1, 0.8)},
    "H04-E16": {"seconds": 20, "window": 5, "outputs": (2000, 4000), "repeats": 1},
    "H04-M4": {"seconds": 20, "window": 5, "short": 0.5, "long": 15},
}
VERDICTS: dict[str, Verdict] = {
    "H04-E10": "reproduced with a difference",
    "H04-E11": "reproduced",
    "H04-E12": "reproduced with a difference",
    "H04-E14": "reproduced with a difference",
    "H04-E15": "reproduced with a difference",
    "H04-M4": "reproduced",
    "H04-W1": "reproduced",
}


H04 = Miniatures((one for one in EXPERIMENTS if one is not h04.WITH_FLIGHTS), QUICK, seed=2)


def test_every_experiment_is_tested() -> None:
    assert set(H04.by_id) == {*VERDICTS, *TIMED}


@pytest.mark.parametrize("name", VERDICTS)
def test_each_has_the_verdict_that_was_found(name: str) -> None:
    assert H04.verdict(name) == VERDICTS[name]


@pytest.mark.parametrize("name", VERDICTS)
def test_other_numbers_would_fail_it(name: str) -> None:
    wrong = swapped(H04.result(name), ITA, NTA if name == "H04-M4" else TPA)
    assert H04.verdict(name, wrong) == "not reproduced"


@pytest.mark.parametrize("name", TIMED)
def test_throughput_is_measured_for_all_and_rises(name: str) -> None:
    (panel,) = H04.result(name).panels
    assert set(panel.lines) == {ITA, TPA, NTA}
    for line in panel.lines.values():
        assert 0 < line[0] <= line[1]  # type: ignore[operator]


def timed(ita: float, tpa: float, nta: float) -> Result:
    return Result([Panel("", "", "", [40_000], {ITA: [ita], TPA: [tpa], NTA: [nta]})])


def test_throughput_decides_by_what_it_measured() -> None:
    one, two = (H04.by_id[name].verdict for name in TIMED)
    assert one(timed(1.0, 1.1, 1.5)) == "reproduced"
    assert one(timed(1.0, 1.1, 1.0)) == "reproduced with a difference"
    assert one(timed(2.0, 1.1, 1.5)) == "not reproduced"
    assert two(timed(1.0, 1.1, 0.5)) == "reproduced"
    assert two(timed(1.0, 1.1, 1.2)) == "not reproduced"


def test_aggregates_that_grow_with_the_window_fail_the_memory_claim() -> None:
    grown = with_number(H04.result("H04-M4"), "bytes of aggregates, long window", 1e9)
    assert H04.by_id["H04-M4"].verdict(grown) == "not reproduced"


@pytest.mark.parametrize("name", ["H04-E11", "H04-M4", "H04-W1"])
def test_the_same_seed_gives_the_same_waits(name: str) -> None:
    again = H04.again(name)
    assert without_times(again) == without_times(H04.result(name))
    assert again.numbers == H04.result(name).numbers


@pytest.mark.parametrize("query", QUERIES)
def test_a_replay_waits_as_long_as_the_engine_says_itself(query: str) -> None:
    """What ITA waits beyond the next row is in the metrics of an ordinary run: the replay sees no less."""
    settings = {**h04.WORKLOAD, "seconds": 20, "window": 5}
    session = shop(query, settings, seed=5)
    sql = asked(query, ITA, settings)
    run = session.sql(sql)
    log = run.to_arrow()
    replayed = replay(session, sql)
    assert replayed.waits_us.min() >= 0
    assert replayed.waits_us.size <= log.num_rows  # windows that run empty after the last row are not replayed
    assert replayed.longest_wait == pytest.approx(run.metrics()["delays"]["longest"])


def test_what_is_held_is_weighed_while_the_windows_are_full() -> None:
    settings = {**h04.WORKLOAD, "seconds": 20, "window": 5}
    found = weigh(shop("Q1", settings, seed=5), asked("Q1", NTA, settings))
    assert found.rows == pytest.approx(5 * 20, rel=0.5)
    assert 0 < found.aggregates < found.bytes


def test_too_few_outputs_are_an_error() -> None:
    settings = {**h04.WORKLOAD, "seconds": 5}
    with pytest.raises(ValueError, match=r"only .* changes were told, but 1000000 are to be timed"):
        times_to(shop("Q1", settings, seed=5), asked("Q1", TPA, settings), [1_000_000], batch_rows=64)


def made_up_flights(rows: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(rows)
    made = {}
    for name in h02.AIRPORTS:
        minutes = np.sort(rng.integers(0, 3 * rows, rows // 3))
        made[name] = pa.table(
            {
                "dest": pa.array([f"D{i}" for i in rng.integers(0, 40, minutes.size)]),
                "distance": rng.integers(100, 3000, minutes.size),
                "ts": (minutes * 60_000_000).astype("M8[us]"),
            }
        )
    return made


def test_the_experiments_with_flights_run_on_tables_like_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (h02, h04):
        monkeypatch.setattr(module, "real_flights", made_up_flights)
    joined = h02.WITH_FLIGHTS.run(ExperimentTrial({**h02.FLIGHTS["small"], "rows": 3000}))
    assert h02.WITH_FLIGHTS.verdict(joined) == "reproduced"
    selected = h04.WITH_FLIGHTS.run(ExperimentTrial({**h04.FLIGHTS["small"], "rows": 600}))
    assert untimed(h04.WITH_FLIGHTS).verdict(selected) != "not reproduced"


def test_flights_are_left_out_where_there_are_none() -> None:
    assert (h02.WITH_FLIGHTS in h02.EXPERIMENTS) == running.have_flights()
    assert (h04.WITH_FLIGHTS in h04.EXPERIMENTS) == running.have_flights()
