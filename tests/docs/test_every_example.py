"""No example of a page stands there unread: of every language that a page has, it is known what runs it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.docs.reader import OF_OTHERS, Reader
from tests.docs.test_map import pages
from tests.docs.test_pages import ON_SPARK, PAGES
from tests.docs.test_shown import COMING_FROM, LAB, LANGUAGE, README, ROOT, WITH_PYTHON, blocks
from watersmeet.model.catalog import FUNCTIONS_OF_ALL
from watersmeet.testing import queries_of

DOCS = ROOT / "docs"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
NEXMARK, TPCH = (ROOT / "examples" / name / "README.md" for name in ("nexmark", "tpch"))
# Their SQL is bound here, over these streams or those that a block declares itself.
WITH_SQL = [
    README,
    DOCS / "optimizer.md",
    DOCS / "shedding.md",
    DOCS / "several_queries.md",
    ARCHITECTURE,
    DOCS / "connectors.md",
    DOCS / "kafka.md",
    DOCS / "spark.md",
]
STREAMS = """
CREATE STREAM clicks (visitor BIGINT, page STRING, ts TIMESTAMP) WITH (path = 'clicks.csv', time = 'ts');
CREATE STREAM orders (id BIGINT, visitor BIGINT, region STRING, amount DECIMAL(10, 2), ts TIMESTAMP)
  WITH (path = 'orders.csv', time = 'ts');
CREATE STREAM payments (order_id BIGINT, method STRING, ts TIMESTAMP) WITH (path = 'payments.csv', time = 'ts');
CREATE STREAM a (id BIGINT, k BIGINT, x INT, ts TIMESTAMP) WITH (path = 'a.csv', time = 'ts');
CREATE STREAM b (id BIGINT, k BIGINT, x INT, ts TIMESTAMP) WITH (path = 'b.csv', time = 'ts');
"""
# What runs the examples of a page, by their language.
RUN = {
    **{(page, language): "tests/docs/test_pages.py" for page in PAGES for language in ("sql", "python", "sh")},
    **{(ON_SPARK, language): "tests/spark/test_docs.py" for language in ("sql", "python", "sh")},
    **{(page, "python"): "tests/docs/test_shown.py" for page in WITH_PYTHON},
    **{(page, "sql"): "tests/docs/test_shown.py" for page in (LANGUAGE, COMING_FROM, LAB)},
    **{(page, "sql"): "tests/docs/test_every_example.py" for page in WITH_SQL},
    (DOCS / "coming_from_views.md", "sql"): "tests/docs/test_coming_from_views.py",
    **{(DOCS / "command_line.md", language): "tests/docs/test_every_example.py" for language in ("sh", "python")},
    (DOCS / "changing_queries.md", "sh"): "tests/durable/test_taking_over.py, with its own script",
    (DOCS / "savepoints.md", "sh"): "tests/durable/test_savepoint_command.py, with its own script",
    (README, "py"): "tests/first_hour.py",
    (ROOT / "CONTRIBUTING.md", "python"): "tests/connectors/test_contributing.py",
    (DOCS / "spark.md", "python"): "tests/spark/test_docs.py",
    **{(DOCS / "cluster.md", language): "tests/cluster/test_page.py" for language in ("sql", "python", "sh")},
    (DOCS / "serve.md", "sql"): "tests/serve/test_page_of_docs.py",
    (DOCS / "serve.md", "sh"): "tests/serve/test_page_of_docs.py",
    (NEXMARK, "sh"): "tests/nexmark, every query; tests/docs/test_operations.py, the commands",
    (TPCH, "sh"): "tests/tpch, every query; its check",
}


def examples() -> Iterator[tuple[Path, str]]:
    shown = ("", "text", *OF_OTHERS)
    return ((page, language) for page in pages() for language, _ in blocks(page) if language not in shown)


def test_it_is_known_what_runs_every_example() -> None:
    assert sorted({f"{language} in {page.name}" for page, language in examples() if (page, language) not in RUN}) == []


def test_nothing_is_said_to_run_examples_that_are_not_there() -> None:
    said = {(page, language) for page, language in RUN if page not in (*PAGES, ON_SPARK)}
    assert sorted(f"{language} in {page.name}" for page, language in said - set(examples())) == []
    assert [what for what in RUN.values() if not (ROOT / what.partition(",")[0]).exists()] == []


@pytest.mark.parametrize("page", WITH_SQL, ids=lambda page: page.name)
def test_the_sql_of_a_page_is_valid(page: Path) -> None:
    for language, text in blocks(page):
        if language == "sql":
            assert queries_of(_complete(text))


def _complete(text: str) -> str:
    """With the streams it reads; where it only declares some, a query over the first."""
    if "CREATE STREAM" not in text:
        return STREAMS + text
    name = text.partition("CREATE STREAM ")[2].split()[0]
    return text if "SELECT" in text else f"{text} SELECT * FROM {name}"


def test_a_script_from_stdin_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, piped, completion = [text for language, text in blocks(DOCS / "command_line.md") if language == "sh"]
    assert completion == "watersmeet --install-completion\n"  # tests/first_hour.py, as it changes the home
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"k": [1, 1], "ts": [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2)]}), "a.parquet")
    reader = Reader(tmp_path)
    try:
        assert reader._do("sh", piped).splitlines()[0] == "_op\t_ts\tk\tn"
    finally:
        reader.close()


def test_functions_of_a_file_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WATERSMEET_ENGINE", "local")
    shown = blocks(DOCS / "command_line.md")
    (tmp_path / "mail.py").write_text(next(text for language, text in shown if language == "python"))
    (tmp_path / "mail.csv").write_text(
        "sender,size,ts\nme@here.org,3,2026-01-01 00:00:00\nyou@here.org,8,2026-01-01 00:00:01\n"
    )
    (tmp_path / "mail.sql").write_text(
        "CREATE STREAM mail WITH (path='mail.csv', time='ts');"
        "SELECT domain(sender) AS at, spread(size) AS x FROM mail [UNBOUNDED] GROUP BY domain(sender)"
    )
    reader = Reader(tmp_path)
    try:
        printed = reader._do("sh", next(text for language, text in shown if language == "sh"))
        assert printed.splitlines()[-1].endswith("here.org\t5")
    finally:
        FUNCTIONS_OF_ALL.clear()  # the command ran in this process
        reader.close()
