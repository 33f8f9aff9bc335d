"""A folder of a store: which files a path stands for, and what is wrong at the other end as a sentence."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

import pyarrow.fs as pa_fs

from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.io.connectors.folder_source import Found
from watersmeet.io.connectors.lake_options import full_path, in_a_sentence, needed
from watersmeet.io.filesystems import StoreFile, address_of, fs_options, is_in_store, located
from watersmeet.io.path_formats import ALIASES, KINDS, is_data_name, named_kind, written_kind


class Folder:
    """Can be pickled: what it opens, it opens when it is asked."""

    def __init__(self, owner: str, options: Mapping[str, str], kind: type[WatersmeetError]) -> None:
        path = needed(owner, options, "path", "s3://bucket/folder")
        self.address = path if is_in_store(path) else f"file://{full_path(path)}"
        self._owner, self._kind = owner, kind
        self._options = fs_options(options)

    @property
    def file_system(self) -> pa_fs.FileSystem:
        with self.naming_errors("cannot be reached"):
            return located(self.address, self._options)[0]

    @property
    def path(self) -> str:
        """Of the folder, in its file system."""
        return located(self.address, self._options)[1]

    def file(self, path: str) -> StoreFile:
        return StoreFile(address_of(self.address, path), self._options)

    def listed(self, kind: str | None) -> list[Found]:
        """The files of a format that the path stands for, in any order."""
        with self.naming_errors("cannot be listed"):
            if glob.has_magic(self.path):
                return list(self._matching(kind))
            info = self.file_system.get_file_info(self.path)
            if info.type == pa_fs.FileType.File:
                return [_found(info)]
            return list(self._in(self.path, kind, recursive=False))

    def is_there(self) -> bool:
        with self.naming_errors("cannot be reached"):
            return bool(self.file_system.get_file_info(self.path).type != pa_fs.FileType.NotFound)

    def _matching(self, kind: str | None) -> Iterator[Found]:
        base = self.path[: re.search(r"[*?\[]", self.path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        pattern = _regex(self.path)
        deep = "/" in self.path[len(base) + 1 :]
        return (one for one in self._in(base, kind, recursive=deep) if pattern.fullmatch(one.path))

    def _in(self, path: str, kind: str | None, *, recursive: bool) -> Iterator[Found]:
        selector = pa_fs.FileSelector(path, allow_not_found=True, recursive=recursive)
        for info in self.file_system.get_file_info(selector):
            if info.type == pa_fs.FileType.File and is_data_name(info.base_name, kind):
                yield _found(info)

    def naming_errors(self, what: str, hint: str | None = None) -> AbstractContextManager[None]:
        return in_a_sentence(self._kind, f"{self.address} {what}", (), dict(self._options), hint)


def kind_of(owner: str, options: Mapping[str, str], word: str, folder: Folder) -> str:
    """The format: as it is said, or as the end of the path tells."""
    said = options.get("format") or options.get(word, "")
    said = "" if said.lower() == "files" else said.lower()
    if not said:
        said = written_kind(options["path"]) or ""
    if not said and word == "source":
        first = min(folder.listed(None), default=None)
        said = "" if first is None else named_kind(first.path) or ""
    if ALIASES.get(said, said) not in KINDS:
        what = f"has format = {said!r}" if said else "does not say its format"
        raise OptionError(f"{owner!r} {what}", hint="format may be 'parquet', 'csv', 'tsv' or 'json'", option="format")
    return said


def _found(info: pa_fs.FileInfo) -> Found:
    return Found(info.mtime_ns or 0, info.path, int(info.size or 0))


def _regex(pattern: str) -> re.Pattern[str]:
    """
    >>> bool(_regex("b/**/x*.csv").fullmatch("b/c/d/x1.csv")), bool(_regex("b/*.csv").fullmatch("b/c/x.csv"))
    (True, False)
    """
    parts = re.split(r"(\*\*/|\*|\?|\[[^\]]+\])", pattern)
    known = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts))
