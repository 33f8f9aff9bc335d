"""Somebody who reads a page and does what it says, block after block, in a folder of their own.

SQL and Python that begin with the name of a file in a comment are saved under it. Other Python is run; so are commands,
in one shell from beginning to end. What they print must be the text that follows, where one does; a line `…` in it
stands for any lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.test_shown import blocks
from tests.unit.cli.test_commands import call

NAMED = re.compile(r"\A(?:--|#) ([\w/]+\.\w+)\n")
# Those that need no shell are called in this process, which is quicker than to start one.
_HERE = "run|explain|why|timeline|check|advise|complete|state|clean|savepoint"
PLAIN = re.compile(rf"\Awatersmeet ({_HERE}) [^|&;<>$`\n]*\n\Z")
RUN_ID = re.compile(r'"[0-9a-f]{12}-')
PORT = "8740"
# Files of other programs, which are not run here.
OF_OTHERS = ("ini", "yaml")
END = "--- end of block ---"


class Reader:
    """A reader in a folder, which must be the current one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.port = str(_free_port())
        self.shell: subprocess.Popen[str] | None = None

    def read(self, page: Path) -> None:
        found = blocks(page)
        for (language, code), (following, text) in zip(found, [*found[1:], ("", "")], strict=True):
            if language in ("", "text", *OF_OTHERS):
                continue
            printed = self._do(language, code)
            wanted = text if following == "text" else ""
            assert _matches(printed, wanted), f"{page.name}:\n{code}\nprinted\n{printed}\ninstead of\n{wanted}"

    def close(self) -> None:
        if self.shell is not None:
            assert self.shell.stdin is not None
            self.shell.stdin.write("kill -9 $(jobs -p) 2>/dev/null; exit\n")
            self.shell.stdin.close()
            self.shell.wait(timeout=30)

    def _do(self, language: str, code: str) -> str:
        doing: dict[str, Callable[[str], str]] = {"python": self._python, "sh": self._command}
        if name := NAMED.match(code):
            return self._save(name[1], code)
        return doing[language](code)

    def _save(self, name: str, code: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
        return ""

    def _python(self, code: str) -> str:
        with _printed() as (out, _):
            exec(compile(code.replace(PORT, self.port), "page", "exec"), self.names)
        return self._as_written(out.getvalue())

    def _command(self, code: str) -> str:
        if PLAIN.match(code):
            with _printed() as (out, told):
                call(*shlex.split(code)[1:])
            return out.getvalue() or told.getvalue()
        if code.startswith("watersmeet serve"):
            self._in_shell(re.sub(r"( &)?\n\Z", f" --port {self.port} >served.txt 2>&1 &\n", code))
            return self._as_written(self._told_by_server())
        return self._as_written(self._in_shell(code.replace(PORT, self.port)))

    def _as_written(self, printed: str) -> str:
        return RUN_ID.sub('"…-', printed.replace(self.port, PORT))

    def _in_shell(self, code: str) -> str:
        """What a block prints, in the shell that all blocks share."""
        if self.shell is None:
            programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            self.shell = subprocess.Popen(
                ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env={**os.environ, "PATH": programs}, cwd=self.folder,
            )  # fmt: skip
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"{code}\necho '\n{END}'\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line == f"{END}\n":
                break
            lines.append(line)
        return "".join(lines).removesuffix("\n")

    def _told_by_server(self) -> str:
        told = self.folder / "served.txt"
        for _ in range(1200):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health"):
                if "serving" in (text := told.read_text(encoding="utf-8")):
                    return text
            time.sleep(0.1)
        raise AssertionError(f"the server did not start: {told.read_text(encoding='utf-8')}")


@contextmanager
def _printed() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as told:
        yield out, told


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _matches(printed: str, wanted: str) -> bool:
    """Whether they are the same, with tabs drawn as columns."""
    parts = re.split(r"^…$", _drawn(wanted), flags=re.MULTILINE)
    return re.fullmatch(r"(?s:.*)".join(map(re.escape, parts)), _drawn(printed)) is not None


def _drawn(text: str) -> str:
    return "\n".join(re.sub(r"\t| {2,}", "  ", line).rstrip() for line in text.strip("\n").splitlines())
