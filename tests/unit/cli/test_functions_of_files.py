"""Functions and aggregates of one's own on the command line: of a file that is named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.forked import Ended, watersmeet

MINE = """
import pyarrow.compute as pc
import watersmeet as wm

def domain(address: str) -> str:
    return pc.replace_substring_regex(address, ".*@", "")

wm.register_function("domain", domain)
wm.register_aggregate("spread", lambda x: pc.subtract(pc.max(x), pc.min(x)), ["BIGINT"], "BIGINT")
"""
SCRIPT = """
CREATE STREAM mail WITH (path = 'mail.parquet', time = 'ts');
CREATE SINK found WITH (sink = 'json', path = 'found.json') AS
SELECT domain(who) AS at, spread(n) AS n FROM TUMBLE(mail, 1 HOUR) GROUP BY domain(who), window_start, window_end;
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    who = ["a@x.org", "b@x.org", "c@y.org"]
    pq.write_table(
        pa.table({"who": who, "n": [1, 5, 3], "ts": pa.array([1, 2, 3], pa.timestamp("us"))}), "mail.parquet"
    )
    Path("mine.py").write_text(MINE)
    Path("found.sql").write_text(SCRIPT)


def command(*words: str) -> Ended:
    return watersmeet(*words).communicate()


@pytest.mark.parametrize(
    "words",
    [
        ("--functions", "mine.py", "run", "found.sql", "--engine", "local"),
        ("run", "found.sql", "--functions=mine.py", "--engine", "local"),
    ],
)
def test_a_script_calls_what_a_file_registers(words: tuple[str, ...]) -> None:
    done = command(*words)
    assert done.returncode == 0, done.stderr
    assert sorted(Path("found.json").read_text().splitlines()) == ['{"at": "x.org", "n": 4}', '{"at": "y.org", "n": 0}']


@pytest.mark.parametrize(
    "words",
    [("explain",), ("check",), ("run", "--engine", "local", "--checkpoint", "kept", "--available-now")],
    ids=["explain", "check", "durable"],
)
def test_other_commands_know_it_too(words: tuple[str, ...]) -> None:
    done = command(*words, "found.sql", "--functions", "mine.py")
    assert done.returncode == 0, done.stderr


def test_without_the_file_there_is_no_such_function() -> None:
    assert "there is no function domain" in command("explain", "found.sql").stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no file 'mine.py'"),
        ("x = 1", "'mine.py' registered no function"),
        ("x = 1\nimport nothing_of_the_kind", "'mine.py' failed in line 2: ModuleNotFoundError"),
        ("x = (", "'mine.py' failed in line 1: SyntaxError"),
        (f"{MINE}wm.register_function('upper', domain)", "'mine.py' in line 10: upper is a function of the language"),
        (f"{MINE}wm.register_function('Domain', domain)", "'mine.py' in line 10: Domain is brought twice"),
        (f"{MINE}wm.register_function('f', lambda x: x)", "the type of argument 1 of function f is not said"),
    ],
)
def test_what_is_wrong_with_it_is_a_sentence(text: str | None, said: str) -> None:
    Path("mine.py").unlink() if text is None else Path("mine.py").write_text(text)
    done = command("--functions", "mine.py", "run", "found.sql", "--engine", "local")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
