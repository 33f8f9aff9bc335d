"""The rows of an answer that was written to files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset

from watersmeet.errors import DataError, SetupError
from watersmeet.io.path_formats import SUFFIXES


def read_rows(path: Path) -> pa.Table:
    """All rows of a file, or of the files of a folder: Parquet, CSV, or JSON lines, by how their names end."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file() and _counts(one, path))
    if not path.exists():
        raise DataError(f"there is no {path}", hint="give a file that was written, or a folder of them")
    if not files:
        raise DataError(f"{path} holds no files of rows", hint=f"files end in {', '.join(SUFFIXES)}")
    kinds = {one.suffix.lower() for one in files}
    if len(kinds) > 1:
        raise DataError(f"{path} holds files of several formats: {', '.join(sorted(kinds))}", hint="give one of them")
    try:
        return pa_dataset.dataset([str(one) for one in files], format=_format(files[0])).to_table()
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def _counts(file: Path, folder: Path) -> bool:
    """Whether a file of a folder holds rows; writers keep their own notes under such names."""
    parts = file.relative_to(folder).parts
    return not any(part.startswith((".", "_")) for part in parts) and file.suffix.lower() in SUFFIXES


def _format(file: Path) -> str | pa_dataset.FileFormat:
    kind = SUFFIXES.get(file.suffix.lower())
    if kind is None:
        raise SetupError(
            f"{file} is of no format that can be read", hint=f"give a file that ends in {', '.join(SUFFIXES)}"
        )
    if file.suffix.lower() == ".tsv":
        return pa_dataset.CsvFileFormat(parse_options=pa_csv.ParseOptions(delimiter="\t"))
    return kind
