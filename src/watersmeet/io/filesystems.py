"""Files of stores: an address such as s3://bucket/folder/file.parquet, and the file system that it is in.

Options that begin with `fs.` say how a store is entered. What Arrow has no file system for is asked of fsspec.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pa_fs

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError, SetupError

PREFIX = "fs."
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_YES_OR_NO = {"true": True, "false": False}

FsOptions = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Size:
    """What of a file's status is asked for, named as the system names it."""

    st_size: int


@dataclass(frozen=True)
class StoreFile:
    """A file in a store, by its address; can be sent elsewhere and opened there. Answers what paths are asked."""

    address: str
    options: FsOptions = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.address

    def __fspath__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        return PurePosixPath(self.address).name

    @property
    def suffixes(self) -> list[str]:
        return PurePosixPath(self.name).suffixes

    def stat(self) -> _Size:
        files, path = located(self.address, self.options)
        info = files.get_file_info(path)
        if info.type != pa_fs.FileType.File:
            raise FileNotFoundError(self.address)
        return _Size(int(info.size or 0))

    def opened(self) -> pa.NativeFile:
        files, path = located(self.address, self.options)
        return files.open_input_file(path)

    def streamed(self) -> pa.NativeFile:
        """From front to back, unpacked if its name says that it is packed."""
        files, path = located(self.address, self.options)
        return files.open_input_stream(path)


AnyFile = Path | StoreFile


def to_seek(file: AnyFile) -> Any:
    """What Arrow reads at any place: a path, which it opens itself, or an open file."""
    return file if isinstance(file, Path) else file.opened()


def to_stream(file: AnyFile) -> Any:
    """What Arrow reads from front to back."""
    return file if isinstance(file, Path) else file.streamed()


def is_in_store(path: str) -> bool:
    """
    >>> is_in_store("s3://bucket/x"), is_in_store("x/y.csv"), is_in_store("C:/x")
    (True, False, False)
    """
    return _SCHEME.match(path) is not None


def fs_options(options: Mapping[str, str]) -> FsOptions:
    """The ways into a store, among the options of a CREATE."""
    return tuple(sorted((name.lower(), value) for name, value in options.items() if name.lower().startswith(PREFIX)))


def located(address: str, options: FsOptions) -> tuple[pa_fs.FileSystem, str]:
    """The file system of an address, and the path in it."""
    parts = urlsplit(address)
    # What follows ? and # belongs to the name of a file.
    rest = address[len(parts.scheme) + 3 :]
    scheme = parts.scheme.lower()
    if scheme == "file":
        return _file_system(scheme, "", options), rest[rest.index("/") :] if "/" in rest else f"/{rest}"
    if scheme in ("hdfs", "viewfs"):
        host, _, path = rest.partition("/")
        return _file_system(scheme, host, options), f"/{path}"
    if scheme in ("abfs", "abfss") and "@" in rest.partition("/")[0]:
        # abfs://container@account.dfs.core.windows.net/path
        host, _, path = rest.partition("/")
        container, _, account = host.partition("@")
        return _file_system(scheme, account.partition(".")[0], options), f"{container}/{path}"
    return _file_system(scheme, rest.partition("/")[0], options), rest.rstrip("/")


def address_of(other: str, path: str) -> str:
    """The address of a path in the file system that another address is in.

    >>> address_of("s3://bucket/in", "bucket/in/a.csv"), address_of("hdfs://here:1/in", "/in/a.csv")
    ('s3://bucket/in/a.csv', 'hdfs://here:1/in/a.csv')
    >>> address_of("file:///data/in", "/data/in/a.csv"), address_of("abfs://box@account/in", "box/in/a.csv")
    ('file:///data/in/a.csv', 'abfs://box@account/in/a.csv')
    """
    scheme, _, rest = other.partition("://")
    host = rest.partition("/")[0]
    match scheme.lower():
        case "file":
            return f"{scheme}://{path}"
        case "hdfs" | "viewfs":
            return f"{scheme}://{host}{path}"
        case "abfs" | "abfss" if "@" in host:
            return f"{scheme}://{host}/{path.partition('/')[2]}"
    return f"{scheme}://{path}"


@lru_cache(maxsize=64)
def _file_system(scheme: str, host: str, options: FsOptions) -> pa_fs.FileSystem:
    given = {name.removeprefix(PREFIX): _value(value) for name, value in options}
    make = _MAKERS.get(scheme, _of_fsspec)
    try:
        return make(scheme, host, given)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None:
            raise
        raise OptionError(
            f"the file system of {scheme}:// has no setting {PREFIX}{unknown[1]}",
            hint="its settings are those of the file system of that name in pyarrow.fs",
            option=f"{PREFIX}{unknown[1]}",
        ) from None
    except NotImplementedError as error:
        raise SetupError(f"pyarrow was built without what {scheme}:// needs: {error}") from None


def _value(text: str) -> Any:
    return _YES_OR_NO.get(text.strip().lower(), text)


def _local(scheme: str, host: str, given: dict[str, Any]) -> pa_fs.FileSystem:
    return pa_fs.LocalFileSystem(**given)


def _s3(scheme: str, bucket: str, given: dict[str, Any]) -> pa_fs.FileSystem:
    # Amazon's other tools read these as well; Arrow reads the others of their kind by itself.
    usual = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = given.setdefault("endpoint_override", usual) if usual else given.get("endpoint_override")
    if isinstance(endpoint, str) and "://" in endpoint:
        given["scheme"], _, given["endpoint_override"] = endpoint.partition("://")
    for name in ("request_timeout", "connect_timeout"):
        if name in given:
            given[name] = float(given[name])
    return pa_fs.S3FileSystem(**given)


def _gcs(scheme: str, bucket: str, given: dict[str, Any]) -> pa_fs.FileSystem:
    return pa_fs.GcsFileSystem(**given)


def _azure(scheme: str, account: str, given: dict[str, Any]) -> pa_fs.FileSystem:
    given.setdefault("account_name", account)
    return pa_fs.AzureFileSystem(**given)


def _hdfs(scheme: str, host: str, given: dict[str, Any]) -> pa_fs.FileSystem:
    name, _, port = host.partition(":")
    return pa_fs.HadoopFileSystem(name or "default", int(port or given.pop("port", 0)), **given)


def _of_fsspec(scheme: str, host: str, given: dict[str, Any]) -> pa_fs.FileSystem:
    try:
        import fsspec

        return pa_fs.PyFileSystem(pa_fs.FSSpecHandler(fsspec.filesystem(scheme, **given)))
    except ImportError as error:
        raise SetupError(
            f"{scheme}:// needs {error.name or 'a library'}, which is not installed",
            hint=f"pip install fsspec, and what it needs for {scheme}",
        ) from None
    except ValueError:
        raise SetupError(
            f"there is no file system for {scheme}://",
            hint="s3://, gs://, abfs://, hdfs:// and file:// are known, and those of fsspec",
        ) from None


_MAKERS: dict[str, Callable[[str, str, dict[str, Any]], pa_fs.FileSystem]] = {
    "file": _local,
    "s3": _s3,
    "s3a": _s3,
    "s3n": _s3,
    "gs": _gcs,
    "gcs": _gcs,
    "abfs": _azure,
    "abfss": _azure,
    "hdfs": _hdfs,
    "viewfs": _hdfs,
}
