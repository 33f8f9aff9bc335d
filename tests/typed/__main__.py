from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SAID = re.compile(r"^.*?(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", re.MULTILINE)
MEANT = re.compile(r"  # ([\w-]+)$")


def meant() -> set[tuple[str, int, str]]:
    """What is to be refused: the file, the line and the code of mypy."""
    lines = enumerate((HERE / "mistakes.py").read_text(encoding="utf-8").splitlines(), 1)
    return {("mistakes.py", number, found[1]) for number, line in lines if (found := MEANT.search(line))}


def refused(python: str) -> tuple[set[tuple[str, int, str]], str]:
    """What mypy refuses of the programs here, by the packages of a Python, and its own words."""
    options = ["--strict", "--python-executable", python, "--config-file=", "--cache-dir", ".mypy_cache/typed"]
    programs = [str(HERE / "program.py"), str(HERE / "mistakes.py")]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *programs], capture_output=True, text=True, check=False
    )
    return {(file, int(line), code) for file, line, code in SAID.findall(ran.stdout)}, ran.stdout + ran.stderr


def main() -> None:
    found, words = refused(sys.argv[1] if len(sys.argv) > 1 else sys.executable)
    if found != meant():
        sys.exit(f"{words}\nunlike the comments in mistakes.py: {sorted(found ^ meant())}")
    print(f"a typed program passes, and {len(found)} mistakes do not")


if __name__ == "__main__":
    main()
