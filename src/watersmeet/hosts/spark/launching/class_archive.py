"""The classes of Spark as Java has them once they are loaded, in a file, so that later starts load them faster.

Java makes such an archive (class data sharing) when it ends, from what it has loaded by then. `watersmeet warm-up
--spark` has it do so (class_training.py), and nobody else: a start without one says what that would gain. The archive
lies in the user's private cache, named after Java, Spark and the class path. Java itself checks whether it fits and
does without if it does not.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyspark

from watersmeet.errors import SetupError, UnsafeFolderError
from watersmeet.hosts.spark.launching import local_files
from watersmeet.private_folders import PrivateFolder, cache_folders, private_folder

VARIABLE = "WATERSMEET_CLASS_ARCHIVE"  # "off" in the environment,
SETTING = "spark.watersmeet.classArchive"  # or "false" as a setting of Spark, turns it off
READY = "ready"  # in the environment: one that is there is used, and nothing is said if there is none
FORMAT = 1  # to be raised when other classes are to be in it
MOST_ARCHIVES, MOST_BYTES, FREE_BYTES = 2, 400 << 20, 2 << 30
GAIN = "`watersmeet warm-up --spark`, once, would shorten every start by about a quarter"
# Leaves what Java has loaded in the first file; the second is the base, if Java comes without one.
Train = Callable[[Path, Path], None]
# What tries that were broken off have left behind.
_LEFT_OVER = re.compile(r"(spark|base)-[0-9a-f]+\.(\d+|trying)")


def is_wanted(setting: str | None, environ: Mapping[str, str] = os.environ) -> bool:
    """
    >>> is_wanted(None, {}), is_wanted("false", {}), is_wanted(None, {VARIABLE: "off"})
    (True, False, False)
    """
    off = ("off", "false", "no", "0")
    return environ.get(VARIABLE, "").lower() not in off and (setting or "").lower() not in off


class ClassArchive:
    """The archive of one Java and one Spark, whether it is there or not."""

    def __init__(self, folder: Path, name: str, chosen_by: str) -> None:
        self.folder = folder
        self.name = name
        self.chosen_by = chosen_by

    @property
    def path(self) -> Path:
        return self.folder / self.name

    @staticmethod
    def of_this_machine() -> ClassArchive | None:
        """That of Java and Spark as they are found here."""
        return ClassArchive.of(Path(os.environ["JAVA_HOME"]), Path(pyspark.__file__).with_name("jars"))

    @staticmethod
    def of(java_home: Path, jars: Path, environ: Mapping[str, str] = os.environ) -> ClassArchive | None:
        """None where no private folder can be had."""
        name = f"spark-{_sum(java_home, jars, environ)}.jsa"
        for cache, chosen_by in cache_folders(environ):
            with contextlib.suppress(OSError, UnsafeFolderError), _opened(cache / "classes", chosen_by) as folder:
                return ClassArchive(folder.path, name, chosen_by)
        return None

    @property
    def base(self) -> Path:
        """Of a Java that comes without one: the archive of its own classes, which ours adds to."""
        return self.path.with_name(self.name.replace("spark-", "base-"))

    def java_options(self) -> list[str]:
        """What has Java use it; nothing if it is not there, or somebody else could have written it."""
        try:
            with self._opened() as folder:
                files = [name for name in (self.base.name, self.name) if (folder.path / name).exists()]
                for name in files:
                    with folder.read(name) as file:
                        os.utime(file.fileno())  # it is of use: others are removed before it
        except (OSError, UnsafeFolderError):
            return []
        if self.name not in files:
            return []
        archives = os.pathsep.join(str(self.folder / name) for name in files)
        # Java would tell on stdout that an archive does not fit.
        return [f'"-XX:SharedArchiveFile={archives}"', "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]

    def _opened(self) -> PrivateFolder:
        return private_folder(self.folder, self.chosen_by)

    def make(self, train: Train) -> bool:
        """Let Spark load what a query needs, and keep that; False if it is there already."""
        draft = self.path.with_suffix(f".{os.getpid()}")
        with self._opened() as folder:
            if not folder.hold(alone=True):
                raise SetupError(f"another process is making a class archive in {self.folder}", hint="wait for it")
            for name in filter(_LEFT_OVER.fullmatch, folder.files()):
                folder.remove(name)
            if self.path.exists():
                return False
            if shutil.disk_usage(self.folder).free < FREE_BYTES:
                raise SetupError(f"too little is free on the disk of {self.folder}", hint="it takes 2 GB for a while")
            try:
                train(draft, self.base)
                size = draft.stat().st_size if draft.is_file() else 0
                if not 0 < size <= MOST_BYTES:
                    raise SetupError(f"no class archive came of it: Java left {size:,} bytes")
                os.chmod(draft, 0o600)
                folder.replace(draft.name, self.name)
                self._remove_others()
            finally:
                draft.unlink(missing_ok=True)
        return True

    def _remove_others(self) -> None:
        archives = sorted(self.folder.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in archives[MOST_ARCHIVES:]:
            path.unlink(missing_ok=True)
            path.with_name(path.name.replace("spark-", "base-")).unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(path: Path, chosen_by: str) -> Iterator[PrivateFolder]:
    # The folder above is checked as the one that is the user's own; this one as part of it.
    with private_folder(path.parent, chosen_by) as cache, cache.below(path.name) as folder:
        yield folder


def _sum(java_home: Path, jars: Path, environ: Mapping[str, str]) -> str:
    """What an archive depends on: this Java, these jars in this order, and how Spark makes the class path of them."""
    parts = [
        str(FORMAT),
        str(java_home),
        str(jars),
        environ.get("SPARK_CONF_DIR", ""),
        environ.get("SPARK_DIST_CLASSPATH", ""),
        str(local_files.JAR),  # which comes first on the class path
    ]
    with contextlib.suppress(OSError):
        parts.append((java_home / "release").read_text(encoding="utf-8"))
    ours = [local_files.JAR] if local_files.JAR.is_file() else []
    for path in [*ours, *sorted(jars.iterdir())]:
        status = path.stat()
        parts.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
