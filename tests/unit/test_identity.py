"""Two copies of the package are told apart by what is in them, in a folder or in a zip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from watersmeet import code_sum as identity

SOURCE = Path(identity.__file__).parent
ASK = "import sys; sys.path.insert(0, sys.argv[1]); from watersmeet.code_sum import code; print(code())"


def code_in(place: Path) -> str:
    """As another process finds it there, which has no other copy."""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ASK, str(place)], capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


def test_a_copy_is_known_and_a_changed_one_too(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "copy" / "watersmeet", ignore=shutil.ignore_patterns("__pycache__"))
    assert code_in(tmp_path / "copy") == identity.code()
    shutil.make_archive(str(tmp_path / "sent"), "zip", tmp_path / "copy")
    assert code_in(tmp_path / "sent.zip") == identity.code()
    with (tmp_path / "copy" / "watersmeet" / "runtime" / "clock.py").open("a") as file:
        file.write("# changed\n")
    assert code_in(tmp_path / "copy") != identity.code()
