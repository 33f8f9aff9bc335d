"""docs/performance.md is what the results say, and nothing that was typed."""

from __future__ import annotations

import pytest

from benchmarks import page


def test_the_page_is_what_the_results_render():
    assert (page.DOCS / "performance.md").read_text() == page.rendered(), "run python -m benchmarks.page"


def test_another_page_has_the_same_table():
    text = (page.DOCS / "coming_from.md").read_text()
    assert page.beside(text) == text
    assert page.LATENCY.search(text)


def test_the_page_is_made_of_words_and_places_only():
    """A table of the template that has a number has it by name, or as a goal in its last column."""
    rows = [line for line in page.TEMPLATE.read_text().splitlines() if line.startswith("| ") and "{{" in line]
    assert len(rows) > 10


def test_what_is_not_measured_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    page.results.cache_clear()
    try:
        assert page.one_figure("nothing", "x") == page.MISSING
        figure = {"name": "a", "unit": "s", "median": 2.0, "low": 1.0, "high": 3.0, "goal": "<= 1"}
        (tmp_path / "some.json").write_text('{"figures": [' + str(figure).replace("'", '"') + "]}")
        assert page.one_figure("some", "a") == "2 (1–3)"
        assert page.figures("some", None).splitlines()[-1] == "| a | 2 (1–3) s | <= 1 |"
        assert page.one_figure("some", "b") == page.MISSING
        assert "has no figure 'b'" in capsys.readouterr().err
    finally:
        page.results.cache_clear()


@pytest.mark.parametrize(
    ("found", "cell"),
    [
        ({"cold_s": 1.5, "warm_s": 0.25, "processor_s": 0.3}, "1.5 / 0.25 (0.3)"),
        ({"cold_s": 1.5, "warm_s": 0.25, "processor_s": 0.0}, "1.5 / 0.25"),
        ({"cold_s": 1.5, "warm_s": 0.25, "processor_s": 0.0, "rows": 1_000}, "1.5 / 0.25"),
        ({"cold_s": 1.5, "warm_s": 0.25, "processor_s": 0.3, "rows": 100}, "100 rows: 1.5 / 0.25 (0.3)"),
        ({"cannot": "there is no such join"}, "cannot"),
        ({"left_out": "pip could not"}, "left out"),
        ({"wrong": "2 rows are not 3"}, "wrong"),
        ({"failed": "it was not done after 9 s"}, "failed"),
        (None, "not measured"),
    ],
)
def test_a_peer_has_two_times_or_a_word(found, cell):
    assert page._peer(found and {"engine": "x", "query": "q", **found}, 1_000) == cell


def test_peers_that_ran_fewer_times_are_named():
    runs = {"slow": 1, "quick": 3}
    figures = [{"engine": engine, "query": query, "runs": n} for engine, n in runs.items() for query in "xy"]
    assert page._fewer({"runs": 3, "figures": figures})[0].endswith("but once warm: slow.")
    assert page._fewer({"runs": 1, "figures": figures[2:]}) == []
