"""Makes the wheel that brings a library of compiled kernels, for one kind of machine, by a C compiler.

Only where HATCH_BUILD_HOOK_ENABLE_CUSTOM is set, as `make wheel` does; else the wheel is for any machine, and kernels
are compiled when they are first called, which needs the extra `compile`.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        made = root / "build" / "kernels"
        shutil.rmtree(made, ignore_errors=True)
        environment = {**os.environ, "PYTHONPATH": str(root / "src")}
        subprocess.run(
            [sys.executable, "-m", "watersmeet.warm_up", "--into", str(made)], env=environment, cwd=root, check=True
        )
        (library,) = made.iterdir()
        build_data["force_include"][str(library)] = f"watersmeet/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = _tag()


def _tag() -> str:
    python = "cp311-abi3"  # the oldest that library.c is for; and all since
    if sys.platform == "linux":
        # What the library asks for, glibc has had for longer; PyArrow, which is needed anyway, asks for this one.
        return f"{python}-manylinux_2_28_{platform.machine()}"
    from packaging.tags import sys_tags

    return f"{python}-{next(iter(sys_tags())).platform}"
