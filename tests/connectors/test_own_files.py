"""Connectors of one's own from the command line: of a file that is named, and of a package that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_shown import ROOT, blocks
from tests.forked import Ended, watersmeet

SCRIPT = """
CREATE STREAM log WITH (source = 'logs', folder = 'logs', time = 'ts', time_format = 'iso', lateness = '1 minute');
CREATE SINK found WITH (sink = 'json', path = 'found.json') AS SELECT line FROM log WHERE line LIKE '%error%';
"""


def connector_of_contributing() -> str:
    """What CONTRIBUTING shows, which uses it only where it is run by itself."""
    text, _ = (text for language, text in blocks(ROOT / "CONTRIBUTING.md") if language == "python")
    return text


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    Path("logs/a.log").write_text("2026-01-01T12:00:00 all well\n2026-01-01T12:00:02 an error of a\n")
    Path("found.sql").write_text(SCRIPT)
    return tmp_path


def command(*words: str, **environment: str) -> Ended:
    return watersmeet(*words, **environment).communicate()


def test_a_file_that_registers_one_is_run_first() -> None:
    Path("mine.py").write_text(connector_of_contributing())
    done = command("--connectors", "mine.py", "run", "found.sql", "--engine", "local")
    assert done.returncode == 0, done.stderr
    assert Path("found.json").read_text() == '{"line": "an error of a"}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no file 'mine.py'"),
        ("x = 1", "'mine.py' registered no connector"),
        ("x = 1\nimport nothing_of_the_kind", "'mine.py' failed in line 2: ModuleNotFoundError"),
        ("x = (", "'mine.py' failed in line 1: SyntaxError"),
        (
            "import watersmeet as wm\nfrom watersmeet.io.connectors.contract import Connector\n"
            "wm.register_connector(Connector('parquet', source=print))",
            "'parquet' is the name of a format",
        ),
    ],
)
def test_what_is_wrong_with_it_is_a_sentence(text: str | None, said: str) -> None:
    if text is not None:
        Path("mine.py").write_text(text)
    done = command("--connectors", "mine.py", "run", "found.sql", "--engine", "local")
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def installed(module: str, value: str) -> str:
    """A package with one entry point, where Python finds it."""
    site = Path("site")
    (site / "logs_for_all-1.0.dist-info").mkdir(parents=True)
    (site / "logs_for_all-1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: logs-for-all\nVersion: 1.0\n"
    )
    (site / "logs_for_all-1.0.dist-info/entry_points.txt").write_text(f"[watersmeet.connectors]\nlogs = {value}\n")
    (site / "logs_for_all.py").write_text(module)
    return str(site.resolve())


def test_a_package_brings_one_by_an_entry_point() -> None:
    made = connector_of_contributing().replace("wm.register_connector(", "LOGS = (")
    path = installed(made, "logs_for_all:LOGS")
    done = command("run", "found.sql", "--engine", "local", PYTHONPATH=path_with(path))
    assert done.returncode == 0, done.stderr
    assert Path("found.json").read_text() == '{"line": "an error of a"}\n'
    Path("found.sql").write_text(SCRIPT.replace("'logs', folder", "'lgs', folder"))
    done = command("run", "found.sql", "--engine", "local", PYTHONPATH=path_with(path))
    assert "did you mean 'logs'?" in done.stderr
    assert "'logs' (logs-for-all)" in done.stderr


@pytest.mark.parametrize(
    ("module", "value", "said"),
    [
        (
            "1 / 0",
            "logs_for_all:LOGS",
            "connector 'logs' of package 'logs-for-all' cannot be loaded: ZeroDivisionError",
        ),
        ("LOGS = 1", "logs_for_all:LOGS", "'logs_for_all:LOGS' of package 'logs-for-all' is a int, not a Connector"),
    ],
)
def test_a_package_that_is_broken_is_named(module: str, value: str, said: str) -> None:
    path = path_with(installed(module, value))
    done = command("run", "found.sql", "--engine", "local", PYTHONPATH=path)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_package_that_is_broken_is_no_trouble_of_others() -> None:
    path = path_with(installed("1 / 0", "logs_for_all:LOGS"))
    Path("found.sql").write_text("CREATE STREAM s WITH (source = 'nowhere', time = 'ts'); SELECT 1 AS one FROM s;")
    assert "source may be" in command("run", "found.sql", "--engine", "local", PYTHONPATH=path).stderr


def path_with(path: str) -> str:
    import os

    return os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])
