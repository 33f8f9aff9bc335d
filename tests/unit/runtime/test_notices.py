"""What is going on stands on a terminal while it lasts, with a clock, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from watersmeet import noticing
from watersmeet.noticing import phase
from watersmeet.runtime import notices
from watersmeet.runtime.notices import Notices
from watersmeet.runtime.progress import progress_on


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(out: io.StringIO) -> str:
    """What was written, without the sequences that move the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())


@pytest.fixture(autouse=True)
def nobody_listens_afterwards() -> Iterator[None]:
    before = noticing.listen(None)
    yield
    noticing.listen(before)


def listening(out: io.StringIO, monkeypatch: pytest.MonkeyPatch, moment_s: float = 0.0) -> Notices:
    monkeypatch.setattr(notices, "MOMENT_S", moment_s)
    told = Notices(lambda: out)
    noticing.listen(told)
    return told


def wait_for(out: io.StringIO, text: str) -> None:
    until = time.monotonic() + 30
    while text not in shown(out):
        assert time.monotonic() < until, shown(out)
        time.sleep(0.02)


def test_a_phase_stands_on_the_terminal_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    listening(out, monkeypatch)
    with phase("compiling kernels", first_time=True, about_s=20):
        wait_for(out, "compiling kernels (first time only, about 20 s) …")
        wait_for(out, "… 1 s")  # the clock
    assert out.getvalue().endswith("\x1b[2K")  # the line is gone
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h")  # and the cursor is back


def test_what_is_over_in_a_moment_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    listening(out, monkeypatch, moment_s=5.0)
    with phase("starting Spark"):
        pass
    assert out.getvalue() == ""


def test_nothing_is_written_where_no_one_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    listening(out, monkeypatch)
    with phase("starting Spark"):
        time.sleep(0.1)
    assert out.getvalue() == ""


def test_phases_overlap_and_the_rest_stays_when_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    told = listening(out, monkeypatch)
    first, second = noticing.Phase("starting Spark"), noticing.Phase("reading the script")
    told.begin(first)
    told.begin(second)
    wait_for(out, "reading the script …")
    told.end(first)
    out.truncate(0)
    wait_for(out, "reading the script …")
    assert "starting Spark" not in shown(out)
    told.end(second)
    assert out.getvalue().endswith("\x1b[2K")


def test_phases_and_progress_share_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    listening(out, monkeypatch)
    with progress_on(out, live=True) as progress, phase("compiling kernels"):
        progress.show("12 rows in")
        wait_for(out, "12 rows in\ncompiling kernels …")


def test_a_phase_ends_for_the_listener_also_when_its_work_fails() -> None:
    heard: list[str] = []

    class Told:
        def begin(self, phase: noticing.Phase) -> None:
            heard.append(f"begin {phase}")

        def end(self, phase: noticing.Phase) -> None:
            heard.append(f"end {phase}")

    noticing.listen(Told())
    with pytest.raises(KeyboardInterrupt), phase("starting Spark"):
        raise KeyboardInterrupt
    assert heard == ["begin starting Spark", "end starting Spark"]


def test_a_notebook_gets_a_plain_line(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    out = kind()
    monkeypatch.setattr(notices, "NOTEBOOK_MOMENT_S", 0.0)
    noticing.listen(Notices(lambda: out))
    with phase("compiling kernels", first_time=True):
        wait_for(out, "watersmeet: compiling kernels (first time only)\n")
    assert out.getvalue().count("\n") == 1


def test_a_session_shows_them_unless_somebody_decided_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    import watersmeet as wm

    monkeypatch.setattr(notices, "_decided", False)
    monkeypatch.setenv("WATERSMEET_NOTICES", "off")
    wm.Session()
    assert not noticing.is_heard()
    monkeypatch.delenv("WATERSMEET_NOTICES")
    wm.notices(False)
    wm.Session()
    assert not noticing.is_heard()
    monkeypatch.setattr(notices, "_decided", False)
    wm.Session()
    assert noticing.is_heard()


def test_a_quiet_command_stays_quiet_whatever_sessions_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from watersmeet.cli.voice import speak

    monkeypatch.setattr(notices, "_decided", False)
    speak(quiet=True)
    notices.notices_by_default()
    assert not noticing.is_heard()


SLOW = """
import sys, time
from watersmeet.cli import commands
from watersmeet.noticing import phase

def slow(name):
    with phase("starting Spark"):
        print("an answer")
        time.sleep(30)

commands.text_of = slow
sys.argv = ["watersmeet", "explain", "x.sql"]
commands.main()
"""


def test_ctrl_c_leaves_a_clean_terminal_and_stdout_has_the_answer_only(tmp_path: Path) -> None:
    outer, inner = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=inner, cwd=tmp_path, start_new_session=True
    ) as process:
        os.close(inner)
        told = b""
        while b"starting Spark \xe2\x80\xa6 1 s" not in told:
            told += os.read(outer, 4096)
        process.send_signal(signal.SIGINT)
        answer, _ = process.communicate(timeout=60)
        try:
            while piece := os.read(outer, 4096):
                told += piece
        except OSError:  # the other end is closed
            pass
    os.close(outer)
    assert answer == b"an answer\n"
    assert told.rstrip().endswith(b"aborted")
    assert b"Traceback" not in told
    assert told.count(b"\x1b[?25l") == told.count(b"\x1b[?25h")
    assert process.returncode == 130


STARTING = """
import sys, time
from watersmeet.cli import main, run

def starting(*_):
    print("starting", flush=True)
    time.sleep(60)

run.text_of = lambda file: "SELECT k FROM a"
run._run_on_spark = starting
sys.argv = ["watersmeet", "run", "x.sql"]
main()
"""


def test_sigterm_before_anything_runs_ends_as_ctrl_c_does() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"starting\n"
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert told == b"aborted\n"  # there was no batch to speak of
    assert process.returncode == 130


LOADING = """
import importlib.abc, os, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), int(sys.argv.pop()))

sys.meta_path.insert(0, Interrupting())
from watersmeet.cli import main
main()
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_while_the_command_line_loads_ends_without_a_word(signum: signal.Signals) -> None:
    command = [sys.executable, "-c", LOADING, "run", "x.sql", str(int(signum))]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (130, b"")
