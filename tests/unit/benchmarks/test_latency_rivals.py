"""What the benchmark beside other engines takes for right, and what it says where one is missing."""

from __future__ import annotations

import itertools
import shutil
from contextlib import ExitStack

import pytest

from benchmarks import latency_rivals
from benchmarks.rivals import dialects, in_process, jvm
from benchmarks.rivals.load import QUERIES, Outcome, Sending, expected, keys_of

TWO, THREE, GROUPS = QUERIES


def brief(query, rate=400, seconds=1.0):
    return Sending(query, rate, seconds, grace_s=1.0, warm_s=1.0)


def rows_of(sending):
    step = 1_000_000 // sending.rate
    return [(i, int(k), i * step) for i, k in enumerate(keys_of(sending.rows))]


@pytest.mark.parametrize("query", [TWO, THREE], ids=["two", "three"])
def test_joins_are_those_of_all_rows_in_closed_windows(query):
    sending, n = brief(query, rate=2_000 if query is THREE else 400), len(query.streams)
    by_key: dict[int, list[tuple[int, int]]] = {}
    for i, k, t in rows_of(sending):
        by_key.setdefault(k, []).append((i, t))
    found = [
        met
        for rows in by_key.values()
        for met in itertools.product(*([row for row in rows if row[0] % n == stream] for stream in range(n)))
        if max(t for _, t in met) - min(t for _, t in met) <= query.window_us
    ]
    products = [met[0][0] * met[1][0] * (met[2][0] if n == 3 else 1) for met in found]
    assert len(found) > 10
    assert expected(sending, "all") == (len(found), sum(products))


@pytest.mark.parametrize("answers", ["all", "arrivals"])
def test_groups_have_a_value_for_each_change_before_the_last_row(answers):
    sending = brief(GROUPS, rate=2_000)
    rows, window = rows_of(sending), GROUPS.window_us
    moments = [(t, k) for _, k, t in rows]
    if answers == "all":
        moments += [(t + window + 1, k) for _, k, t in rows]
    values = []
    for moment, key in moments:
        there = [i for i, k, t in rows if k == key and t <= moment <= t + window]
        if there and moment < rows[-1][2]:
            values.append(sum(there) * (len(there) + key))
    assert expected(sending, answers) == (len(values), sum(values))


def test_ours_gives_what_is_expected(tmp_path):
    sending = Sending(TWO, 1_000, 0.3, grace_s=1.0, warm_s=0.3)
    got = in_process.run(sending, tmp_path)
    assert (got.answers, got.checksum) == expected(sending, "all")
    assert 0 < got.timed < got.answers


def test_other_answers_fail_and_unfinished_ones_are_not_compared():
    sending = brief(TWO)
    answers, checksum = expected(sending, "all")
    right = Outcome(sending.rows, answers, checksum, 10, 1.0, 2.0, 3.0, 4.0)
    assert latency_rivals.judged(sending, right, "all")["checked_by"] == "DuckDB"
    wrong = Outcome(sending.rows, answers, checksum + 1, 10, 1.0, 2.0, 3.0, 4.0)
    assert "are not the" in latency_rivals.judged(sending, wrong, "all")["failed"]
    unfinished = Outcome(sending.rows - 1, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
    assert latency_rivals.judged(sending, unfinished, "all")["behind"]


def test_engines_are_compared_where_there_are_too_many_answers():
    one = {"engine": "x", "query": "q", "rate": 1, "answers": 3, "checksum": 4, "checked_by": "the others"}
    other = one | {"engine": "y", "checksum": 5}
    latency_rivals.check_each_other([one, other])
    assert "failed" not in one
    assert other["failed"].endswith("of x")


def test_other_rates_and_engines_stay_beside_what_is_measured_again(tmp_path):
    path, about = tmp_path / "rivals.json", {"seconds": 5.0, "load": 1.5, "cores": 2}
    ours, esper, flink = latency_rivals.ENGINES[:3]
    before = [{"engine": ours.name, "query": TWO.name, "rate": rate} for rate in (1_000, 100_000)]
    before += [
        {"engine": ours.name, "query": GROUPS.name, "rate": 100_000},
        {"engine": flink.name, "left_out": "no mvn"},
    ]
    latency_rivals.keep(path, {**about, "figures": before})
    found = {**about, "load": 0.5}
    assert latency_rivals.others_before(path, found, [ours, esper], [TWO], [100_000]) == [before[0], *before[2:]]
    assert found["load"] == 1.5
    assert before[3] not in latency_rivals.others_before(path, found, [flink], [TWO], [100_000])
    assert latency_rivals.others_before(path, {**about, "seconds": 2.0}, [ours], [TWO], [1_000]) == []


def test_the_table_is_in_the_order_of_engines_whatever_was_measured_last():
    cell = {"behind": False, "p50_ms": 1.0, "p99_ms": 2.0, "p99_9_ms": 3.0}
    found = [
        {"engine": engine, "query": TWO.name, "rate": rate, **cell}
        for engine, rate in (("Esper", 10), ("in-process", 10), ("Esper", 20), ("in-process", 20))
    ]
    rows = latency_rivals.table(found, [10, 20]).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["in-process", "Esper"]
    assert all(row.count("1.0 / 2.0 / 3.0") == 2 for row in rows)


def test_without_maven_an_engine_is_left_out_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(jvm, "JARS", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    esper = next(one for one in latency_rivals.ENGINES if one.name == "Esper")
    with ExitStack() as closing, pytest.raises(jvm.MissingError):
        esper.opened(closing)
    assert [one["engine"] for one in latency_rivals.measured(esper, [1_000], [TWO], 1.0)] == ["Esper"]
    assert capsys.readouterr().out == (
        "Esper is left out: Maven, which downloads it, is missing: there is no mvn on the path\n"
    )


def test_every_engine_is_asked_the_same_window():
    assert "WINDOW = 200 MILLISECONDS" in dialects.ours(THREE)
    assert dialects.esper(THREE).count("#time(200001 microseconds)") == 3
    assert dialects.flink(THREE).count("INTERVAL '0:03:20' HOUR TO SECOND") == 6
