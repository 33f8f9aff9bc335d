"""Compile every kernel that queries need, before anyone waits for it.

watersmeet warm-up                       for this machine, into the user's cache folder
python -m watersmeet.warm_up --into DIR  for many machines, a library that goes with the package
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from watersmeet.compiling.library import BUILD, CHOICE, library


def warm_up() -> bool:
    """Compile what the library would have; False if one came along, so that there is nothing to do."""
    if library() is not None:
        return False
    from watersmeet.compiling.signatures import listed, read

    for one in listed():
        kernel, arguments = read(one)
        kernel.compile(arguments)
    return True


def ship(folder: Path) -> None:
    """Compile for processors of this kind into a library."""
    from watersmeet.compiling.machine import baseline, environment_for

    environment = {**os.environ, **environment_for(baseline()), CHOICE: BUILD}
    subprocess.run([sys.executable, "-m", "watersmeet.warm_up", "--build", str(folder)], env=environment, check=True)


def _build(folder: Path) -> None:
    from watersmeet.compiling.build import build
    from watersmeet.compiling.signatures import listed

    made = build(folder, listed())
    print(f"{made} ({made.stat().st_size >> 10} kB)")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m watersmeet.warm_up", description="compile all kernels now")
    options.add_argument("--into", type=Path, help="compile for many machines, a library into this folder")
    options.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.into is not None:
        ship(asked.into)
    elif asked.build is not None:
        _build(asked.build)
    else:
        warm_up()


if __name__ == "__main__":
    main()
