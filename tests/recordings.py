"""Text recordings of a terminal: what a stranger sees in the first minute, and when.

    python -m tests.recordings dist     writes docs/recordings/*.txt; `make recordings` builds the wheel first

The commands run in a new environment with an empty home, in a terminal of 80 columns that pyte draws. Of lines that
change in place, such as a clock, the last text is kept, with the times between which they stood there.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.first_hour import README, ROOT, Stranger, blocks, wheel_for_this_machine

FOLDER = ROOT / "docs" / "recordings"
COLUMNS, LINES = 80, 400  # as high as a recording is long, so that nothing scrolls
SECONDS = 60.0
CHANGING = re.compile(r"[\d.,:]+")  # two texts that differ in numbers only are one line with a clock in it


@dataclass
class Shown:
    """A line of the terminal, from when it stood there and, if it was overwritten, until when."""

    row: int
    text: str
    since: float
    until: float | None = None


class Recording:
    """The lines of a terminal in the order in which they appeared."""

    def __init__(self) -> None:
        import pyte  # which `make recordings` installs, and tests do not need

        self.screen = pyte.Screen(COLUMNS, LINES)
        self.screen.dirty.clear()  # at first all lines are
        self.stream = pyte.ByteStream(self.screen)
        self.lines: list[Shown] = []
        self._now: dict[int, Shown] = {}
        self.started = time.monotonic()

    def feed(self, written: bytes) -> None:
        self.stream.feed(written)
        at = time.monotonic() - self.started
        for row in sorted(self.screen.dirty):
            line = self.screen.buffer[row]
            self._see(row, "".join(line[column].data for column in range(COLUMNS)).rstrip(), at)
        self.screen.dirty.clear()

    def _see(self, row: int, text: str, at: float) -> None:
        before = self._now.get(row)
        if before is not None:
            if before.text == text:
                return
            # More of a line that is being written, or the same with a later clock.
            if text.startswith(before.text) or CHANGING.sub("", text) == CHANGING.sub("", before.text):
                before.text = text
                return
            before.until = at
            del self._now[row]
        if text:
            self._now[row] = Shown(row, text, at)
            self.lines.append(self._now[row])

    def text(self) -> str:
        told = [(f"{one.since:5.1f}", "" if one.until is None else f"{one.until:5.1f}", one.text) for one in self.lines]
        return "".join(f"{since} {until:>5}  {text}".rstrip() + "\n" for since, until, text in told)


def record(stranger: Stranger, commands: list[str]) -> Recording:
    """Type commands one after the other, until the last has ended or the time is over."""
    recording = Recording()
    for command in commands:
        recording.feed(f"$ {command}\r\n".encode())
        if not _run(stranger, command, recording):
            break
    return recording


def _run(stranger: Stranger, command: str, recording: Recording) -> bool:
    """Whether it ended in time; else it is interrupted, unseen."""
    import pty  # which Windows does not have

    ours, theirs = pty.openpty()
    environment = {**stranger.environment, "TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": "24"}
    words = shlex.split(command)
    program = shutil.which(words[0], path=environment["PATH"]) or words[0]
    running = subprocess.Popen(
        [program, *words[1:]], env=environment, cwd=stranger.work, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        while (left := recording.started + SECONDS - time.monotonic()) > 0:
            if select.select([ours], [], [], left)[0]:
                try:
                    written = os.read(ours, 1 << 16)
                except OSError:  # nobody writes any more
                    written = b""
                if not written:
                    return running.wait() == 0
                recording.feed(written)
        running.send_signal(signal.SIGINT)
        _drain(ours)
        running.wait()
        return False
    finally:
        os.close(ours)


def _drain(ours: int) -> None:
    try:
        while os.read(ours, 1 << 16):
            pass
    except OSError:
        return


def write(name: str, about: str, recording: Recording, stranger: Stranger) -> None:
    # Where the home and the folder lie is this machine's own.
    text = recording.text().replace(str(stranger.home), "~").replace(str(stranger.work), ".")
    head = f"{about}\nSeconds since the start; a second number where a line was overwritten, and when.\n\n"
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(head + text, encoding="utf-8")
    print(head + text)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.recordings")
    options.add_argument("dist", type=Path)
    wheel = wheel_for_this_machine(options.parse_args().dist)
    with tempfile.TemporaryDirectory() as folder:
        stranger = Stranger(Path(folder))
        stranger.make_environment()
        stranger.install("pip install watersmeet", wheel)
        python = next(text for language, text in blocks(README) if language == "python")
        (stranger.work / "readme.py").write_text(python, encoding="utf-8")
        first = [
            "watersmeet examples checkout", "watersmeet run examples/checkout.sql --engine local",
            "python readme.py", "python readme.py",
        ]  # fmt: skip
        about = f"The first local queries after pip install {wheel.name}, and README's example in Python twice."
        write("first_query.txt", about, record(stranger, first), stranger)
        stranger.install("pip install 'watersmeet[spark]'", wheel)
        about = "The first 60 seconds of watersmeet demo, at the first start of Spark in a fresh environment."
        write("demo.txt", about, record(stranger, ["watersmeet demo"]), stranger)


if __name__ == "__main__":
    main()
