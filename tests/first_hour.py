"""The first minutes of a stranger: the wheel in a new environment with an empty home, and README's examples literally.

    python -m tests.wheel dist

It needs nothing but Python; `make test-wheel` builds the wheel first.
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
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The rows of README's query, tabs drawn as columns.
COLUMNS = re.compile(r"\t|\s{2,}")


class Stranger:
    """Somebody with a new environment and an empty home."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.home = folder / "home"
        self.home.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        kept = {name: os.environ[name] for name in ("SYSTEMROOT", "TMPDIR", "TEMP", "LANG") if name in os.environ}
        path = os.pathsep.join([str(self.bin), os.environ["PATH"]])
        self.environment = {**kept, "PATH": path, "HOME": str(self.home), "USERPROFILE": str(self.home)}

    def install(self, what: str) -> None:
        # With the user's own settings of pip: from where packages come is none of README's business.
        constraints = ROOT / "constraints.txt"
        command = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, "-c", str(constraints), what], check=True)

    def run(self, *command: str) -> str:
        """What a command prints. It must end well, and say nothing else."""
        program = shutil.which(command[0], path=self.environment["PATH"]) or command[0]
        started = time.perf_counter()
        ran = subprocess.run(
            [program, *command[1:]],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        print(f"{time.perf_counter() - started:6.1f} s  {shlex.join(command)[:90]}", flush=True)
        if ran.returncode or "Traceback" in ran.stderr:
            sys.exit(f"{ran.stdout}{ran.stderr}\nended with {ran.returncode}")
        return ran.stdout

    def has_compiled(self) -> list[Path]:
        return [file for file in self.home.rglob("kernels-*/*") if file.is_file()]


def expect(printed: str, wanted: str, what: str) -> None:
    if printed != wanted:
        sys.exit(f"{what} printed\n{printed}\ninstead of\n{wanted}")


def try_readme(stranger: Stranger) -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    for (language, code), (following, text) in itertools.pairwise(blocks):
        if language == "python":
            expect(stranger.run("python", "-c", code), text if following == "text" else "", "README's Python")
    rows, plan = [text for language, text in blocks if language == "text"][:2]
    script = "examples/checkout.sql"
    printed = stranger.run("watersmeet", "run", script, "--engine", "local")
    split = [COLUMNS.split(line) for line in printed.splitlines()]
    if split != [COLUMNS.split(line) for line in rows.splitlines()]:
        sys.exit(f"README's query printed\n{printed}")
    expect(stranger.run("watersmeet", "explain", script).rstrip() + "\n", plan, "README's EXPLAIN")


def wheel_for_this_machine(folder: Path) -> Path:
    """The wheel with compiled kernels if there is one, as pip would take it."""
    tag = f"-cp{sys.version_info.major}{sys.version_info.minor}-"
    wheels = [*folder.glob(f"watersmeet-*{tag}*.whl"), *folder.glob("watersmeet-*-none-any.whl")]
    if not wheels:
        sys.exit(f"there is no wheel in {folder}: `make wheel` makes one")
    return wheels[0]


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.wheel")
    options.add_argument("dist", type=Path)
    asked = options.parse_args()
    wheel = wheel_for_this_machine(asked.dist)
    with tempfile.TemporaryDirectory() as folder:
        stranger = Stranger(Path(folder))
        stranger.install(str(wheel.resolve()))
        try_readme(stranger)
        if "none-any" not in wheel.name:
            stranger.run("python", "-m", "watersmeet.warm_up")
            if compiled := stranger.has_compiled():
                sys.exit(f"{len(compiled)} kernels were compiled that {wheel.name} should have brought")
    print(f"{wheel.name} does what README says")


if __name__ == "__main__":
    main()
