"""The first hour of a stranger: the wheel in a new environment with an empty home, and the documentation literally.

    python -m tests.first_hour dist                   what README says, on both hosts; the notebooks; the pages
    python -m tests.first_hour dist --without-spark   only the part in one process

It needs nothing but Python; `make first-hour` and `make test-wheel` build the wheel first. Every step must end well and
print what the page says, and its time stands in a table at the end.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
README, OPTIMIZER = ROOT / "README.md", ROOT / "docs" / "optimizer.md"
PAGES = ("python.md", "coming_from.md", "testing.md", "shedding.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = re.compile(r"pip install ('?)watersmeet(\[[\w,]+\])?\1")
# The rows of README's query, tabs drawn as columns.
COLUMNS = re.compile(r"\t|\s{2,}")
# What differs from run to run in what a run tells of itself.
SPEED = re.compile(r"[\d,]+ rows/s")
# How the lines begin that a first query on Spark tells, beside those of its batches.
TOLD = """\
`watersmeet warm-up --spark`, once, would shorten every start by about a quarter
no --checkpoint is given, so a later run starts anew
no lateness is said for orders, payments, so it is 0
query 1 done"""
NEXT = "\x1enext\n"
NO_NUMBA = "import importlib.util as found; assert found.find_spec('numba') is None"


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and text."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


class Stranger:
    """Somebody with a new environment, an empty home, no Java, and an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.times: list[tuple[str, float]] = []
        self.bin = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        kept = {name: os.environ[name] for name in ("SYSTEMROOT", "TMPDIR", "TEMP", "LANG") if name in os.environ}
        path = os.pathsep.join([str(self.bin), *map(str, _without_java(folder / "programs"))])
        self.environment = {**kept, "PATH": path, "HOME": str(self.home), "USERPROFILE": str(self.home)}

    def make_environment(self) -> None:
        self._timed("python -m venv", [sys.executable, "-m", "venv", str(self.folder / "venv")], dict(os.environ))

    def install(self, written: str, wheel: Path) -> None:
        """As README writes it, but for where the package comes from; with the user's own settings of pip, as from where
        all others come is none of README's business."""
        (extras,) = {match[1] or "" for match in INSTALL.findall(written)}
        self.pip(written, f"{wheel.resolve()}{extras}")

    def pip(self, what: str, package: str) -> None:
        command = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        self._timed(what, [*command, "-c", str(ROOT / "constraints.txt"), package], dict(os.environ))

    def run(self, what: str, *command: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        """What a command prints, on both channels. It must end as it should, and not by a traceback."""
        program = shutil.which(command[0], path=self.environment["PATH"]) or command[0]
        return self._timed(what, [program, *command[1:]], self.environment, exit_code)

    def command(self, *words: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run(shlex.join(["watersmeet", *words]), "watersmeet", *words, exit_code=exit_code)

    def shell(self, text: str) -> str:
        # Completion is installed for the shell that a command is typed in, so it may not take the shell's place.
        return self.run(text.splitlines()[0], "bash", "-c", f"{text}\n:").stdout

    def _timed(
        self, what: str, command: list[str], environment: dict[str, str], exit_code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        started = time.perf_counter()
        ran = subprocess.run(command, env=environment, cwd=self.work, capture_output=True, text=True, check=False)
        self.times.append((what, time.perf_counter() - started))
        print(f"{self.times[-1][1]:6.1f} s  {what[:100]}", flush=True)
        if ran.returncode != exit_code or "Traceback" in ran.stderr:
            sys.exit(f"{ran.stdout}{ran.stderr}\n{what} ended with {ran.returncode}")
        return ran

    def table(self) -> str:
        lines = [f"{seconds:6.1f} s  {what}" for what, seconds in self.times]
        return "\n".join([*lines, f"{sum(seconds for _, seconds in self.times):6.1f} s  all of it"])


def _without_java(folder: Path) -> Iterator[Path]:
    """Where programs are found, but for Java: whoever installs `[spark]` need not have one."""
    for number, place in enumerate(map(Path, os.environ["PATH"].split(os.pathsep))):
        if os.name == "nt" or not (place / "java").exists():
            yield place
            continue
        others = folder / str(number)
        others.mkdir(parents=True)
        for program in place.iterdir():
            if not program.name.startswith("java"):
                (others / program.name).symlink_to(program)
        yield others


def expect(printed: str, wanted: str, what: str) -> None:
    if printed != wanted:
        sys.exit(f"{what} printed\n{printed}\ninstead of\n{wanted}")


def expect_rows(printed: str, wanted: str, what: str) -> None:
    """The same rows in any order, as the order of an answer is not part of it."""
    (head, *rows), (titles, *expected) = (
        [COLUMNS.split(line) for line in text.splitlines()] for text in (printed, wanted)
    )
    if (head, sorted(rows)) != (titles, sorted(expected)):
        sys.exit(f"{what} printed\n{printed}\ninstead of\n{wanted}")


def rows_of_query() -> str:
    return next(text for _, text in blocks(README) if text.startswith("id   page"))


# ---- in one process -------------------------------------------------------------------------------------------------


def try_readme(stranger: Stranger) -> None:
    found = blocks(README)
    try_python(stranger, README)
    plan = next(text for _, text in blocks(OPTIMIZER) if text.startswith("select: o.id, c.page"))
    script = "examples/checkout.sql"
    (write,) = re.findall(r"`(watersmeet examples checkout)`", README.read_text(encoding="utf-8"))
    stranger.command(*shlex.split(write)[1:])
    printed = stranger.command("run", script, "--engine", "local").stdout
    expect_rows(printed, rows_of_query(), "README's query")
    expect(stranger.command("explain", script).stdout.rstrip() + "\n", plan, "EXPLAIN of README's query")
    try_mistakes(stranger, [text for language, text in found if language == "text"])


def try_mistakes(stranger: Stranger, shown: list[str]) -> None:
    """The errors that README shows."""
    script = (stranger.work / "examples" / "checkout.sql").read_text(encoding="utf-8")
    for right, wrong in (("p.order_id", "p.oder_id"), (" AND DWINDOW (o, p) = 10 MINUTES", "")):
        (stranger.work / "mistake.sql").write_text(script.replace(right, wrong), encoding="utf-8")
        told = stranger.command("run", "mistake.sql", "--engine", "local", exit_code=2).stderr
        if told not in shown:
            sys.exit(f"README does not show\n{told}")


def try_types(stranger: Stranger) -> None:
    """A program with types, and mistakes in one (tests/typed)."""
    stranger.pip("pip install mypy", "mypy")
    stranger.run("a typed program", "python", "-P", str(ROOT / "tests" / "typed" / "__main__.py"))


def try_python(stranger: Stranger, page: Path, language: str = "python") -> None:
    """All Python of a page, block after block, as one who pastes it; tests in it are run too."""
    found = blocks(page)
    code = "".join(f"{text}\nprint({NEXT!r}, end='', flush=True)\n" for kind, text in found if kind == language)
    calls = "for name, one in list(globals().items()):\n    if name.startswith('test_'):\n        one()\n"
    (stranger.work / "page.py").write_text(code + calls, encoding="utf-8")
    *printed, rest = stranger.run(f"the Python of {page.name}", "python", "page.py").stdout.split(NEXT)
    pairs = itertools.pairwise([*found, ("", "")])
    wanted = [text if after == "text" else "" for (kind, _), (after, text) in pairs if kind == language]
    for one, other in zip(printed, wanted, strict=True):
        expect(one, other if one else "", page.name)
    expect(rest, "", page.name)


def try_pages(stranger: Stranger) -> None:
    for name in PAGES:
        try_python(stranger, ROOT / "docs" / name)
    stranger.run("the notebooks", "python", "-P", str(ROOT / "tests" / "notebooks.py"), "--compare")


def try_commands(stranger: Stranger) -> None:
    for name in ("dashboard", "nexmark"):
        stranger.command("examples", name)
    stranger.command("run", "examples/nexmark/q1.sql", "--engine", "local", "--quiet")
    for script in ("examples/checkout.sql", "examples/dashboard.sql"):
        told = stranger.command("check", script).stdout
        if "equal" not in told or "differ" in told:
            sys.exit(f"watersmeet check {script} told\n{told}")
    stranger.command("run", "examples/dashboard.sql", "--engine", "local", "--final")
    if shutil.which("bash") and os.name != "nt":
        try_shell(stranger)


def try_shell(stranger: Stranger) -> None:
    """What the page of the command line has for a shell: a script from stdin, completion."""
    make = "import datetime as d, pyarrow as pa, pyarrow.parquet as pq;"
    make += (
        "pq.write_table(pa.table({'k': [1, 1], 'ts': [d.datetime(2026, 1, 1), d.datetime(2026, 1, 2)]}), 'a.parquet')"
    )
    stranger.run("a Parquet file", "python", "-c", make)
    piped, completion = [text for language, text in blocks(ROOT / "docs" / "command_line.md") if language == "sh"]
    if "_op\t_ts\tk\tn" not in (told := stranger.shell(piped)):
        sys.exit(f"a script from stdin printed\n{told}")
    stranger.shell(completion)
    pressed = "shopt -s expand_aliases; source ~/.bashrc; COMP_WORDS=(watersmeet exp); COMP_CWORD=1; "
    pressed += "_watersmeet_completion watersmeet exp watersmeet; echo ${COMPREPLY[@]}"
    expect(stranger.run("watersmeet exp<Tab>", "bash", "-c", pressed).stdout, "explain\n", "Tab")


# ---- on Spark -------------------------------------------------------------------------------------------------------


def try_spark(stranger: Stranger) -> None:
    ran = stranger.command("run", "examples/checkout.sql", "--available-now")
    expect_rows(ran.stdout, rows_of_query(), "README's query on Spark")
    # Nothing that is not ours.
    begun = [line.split(":")[0] for line in sentences(ran.stderr) if not re.match(r"batch \d+: ", line)]
    expect("\n".join(begun), TOLD, "the first query on Spark")
    (keep,) = re.findall(r"`(watersmeet demo --keep \w+)`", README.read_text(encoding="utf-8"))
    if "they agree." not in (shown := stranger.command(*shlex.split(keep)[1:]).stdout):
        sys.exit(f"the demo showed\n{shown}")
    for language, text in blocks(README):
        if language == "text" and text.startswith("$ "):
            try_told(stranger, text)
    try_python(stranger, README, "py")
    if "camera_north" not in (told_state := stranger.command("state", "ck").stdout):
        sys.exit(f"watersmeet state told\n{told_state}")


def try_told(stranger: Stranger, shown: str) -> None:
    """A command with what it tells: the last line, but for the speed."""
    first, _, wanted = shown.partition("\n")
    told = stranger.command(*shlex.split(first.removeprefix("$ watersmeet "))).stderr
    print(told)
    expect(SPEED.sub("…", sentences(told)[-1]), SPEED.sub("…", sentences(wanted)[-1]), first)


def sentences(told: str) -> list[str]:
    """Each on a line of its own, as it was before it was made to fit the terminal."""
    return re.sub(r"\n +", " ", told).splitlines()


# ---- all of it ------------------------------------------------------------------------------------------------------


def wheel_for_this_machine(folder: Path) -> Path:
    """The wheel with compiled kernels if there is one, as pip would take it."""
    wheels = [*folder.glob("watersmeet-*-abi3-*.whl"), *folder.glob("watersmeet-*-none-any.whl")]
    if not wheels:
        sys.exit(f"there is no wheel in {folder}: `make wheel` makes one")
    return wheels[0]


def first_hour(stranger: Stranger, wheel: Path, *, with_spark: bool) -> None:
    alone, with_extras = [match.group() for match in INSTALL.finditer(README.read_text(encoding="utf-8"))][:2]
    stranger.make_environment()
    stranger.install(alone, wheel)
    try_readme(stranger)
    try_types(stranger)
    if "none-any" not in wheel.name:
        stranger.command("warm-up")
        stranger.run("there is no Numba", "python", "-c", NO_NUMBA)
    if not with_spark:
        return
    stranger.install(with_extras, wheel)
    try_commands(stranger)
    try_pages(stranger)
    try_spark(stranger)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.first_hour")
    options.add_argument("dist", type=Path)
    options.add_argument("--without-spark", action="store_true", help="only what README says of one process")
    asked = options.parse_args()
    wheel = wheel_for_this_machine(asked.dist)
    with tempfile.TemporaryDirectory() as folder:
        stranger = Stranger(Path(folder))
        first_hour(stranger, wheel, with_spark=not asked.without_spark)
        print(f"\n{stranger.table()}\n")
    print(f"{wheel.name} on Python {sys.version.split()[0]} does what the documentation says")


if __name__ == "__main__":
    main()
