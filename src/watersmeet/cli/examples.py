"""`watersmeet examples`: those that come with the package, listed, and written out with their data."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError

PACKED, IN_TREE = Path(__file__).parents[1] / "_examples", Path(__file__).parents[3] / "examples"


@dataclass(frozen=True)
class Example:
    """`files`: what belongs to it, as patterns; `streams`: a workload of the lab that is its data; `then`: commands to
    try next."""

    about: str
    files: tuple[str, ...]
    then: tuple[str, ...]
    streams: str | None = None


EXAMPLES = {
    "checkout": Example(
        "which page led to an order that was paid: a join of three streams",
        ("checkout.sql", "checkout/*.csv"),
        (
            "watersmeet run examples/checkout.sql --engine local",
            "watersmeet timeline examples/checkout.sql -o run.svg",
        ),
    ),
    "dashboard": Example(
        "answers that change: what was ordered lately, who did not order, which pages lead",
        ("dashboard.sql", "checkout/clicks.csv", "checkout/orders.csv"),
        ("watersmeet run examples/dashboard.sql --engine local --final", "watersmeet check examples/dashboard.sql"),
    ),
    "cameras": Example(
        "a join of three streams in files, on Spark, into files",
        ("cameras.sql",),
        ("watersmeet demo --keep cameras", "watersmeet run examples/cameras.sql --available-now"),
    ),
    "kafka": Example(
        "topics joined into a topic, a table of PostgreSQL and one of Delta; they must be there",
        ("kafka/checkout.sql",),
        ("watersmeet explain examples/kafka/checkout.sql",),
    ),
    "nexmark": Example(
        "all queries of the Nexmark benchmark; their streams are made in the folder nexmark",
        ("nexmark/*.sql",),
        ("watersmeet run examples/nexmark/q5.sql --engine local", "watersmeet check examples/nexmark/q4.sql"),
        streams="nexmark",
    ),
    "tpch": Example(
        "all queries of the TPC-H benchmark; their streams are made in the folder tpch",
        ("tpch/*.sql",),
        ("watersmeet run examples/tpch/q20.sql --engine local --final", "watersmeet check examples/tpch/q4.sql"),
        streams="tpch",
    ),
    "notebooks": Example(
        "a first query, and rows that an application pushes",
        ("*.ipynb",),
        ("jupyter lab examples/",),
    ),
}


def list_examples() -> str:
    width = max(map(len, EXAMPLES))
    lines = [f"{name:<{width}}  {one.about}" for name, one in EXAMPLES.items()]
    return "\n".join([*lines, "", "watersmeet examples NAME writes one into the folder examples"])


def write_example(name: str, folder: Path, tell: Callable[[str], None]) -> None:
    if name not in EXAMPLES:
        raise SetupError(f"there is no example {name!r}", hint=f"there are {', '.join(EXAMPLES)}")
    example = EXAMPLES[name]
    files = {folder / path: _as_below(folder, path, data) for path, data in _files(example)}
    _check_new(files)
    for path, data in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise SetupError(f"{path} cannot be written: {error.strerror}", hint="name another folder") from None
        tell(str(path))
    if example.streams is not None:
        _make_streams(example.streams, tell)
    typed = shlex.quote(folder.as_posix())
    tell("\n".join(["try:", *(f"  {_below(typed, command)}" for command in example.then)]))


def _files(example: Example) -> Iterator[tuple[Path, bytes]]:
    home = PACKED if PACKED.is_dir() else IN_TREE
    for pattern in example.files:
        found = sorted(home.glob(pattern))
        if not found:
            raise SetupError(f"this installation came without {pattern} of the examples", hint="install it anew")
        yield from ((one.relative_to(home), one.read_bytes()) for one in found)


def _as_below(folder: Path, path: Path, data: bytes) -> bytes:
    """A script names its data as it is seen from where this is called, and where it will be run."""
    if path.suffix != ".sql":
        return data
    return _below(folder.as_posix().replace("'", "''"), data.decode("utf-8")).encode("utf-8")


def _below(folder: str, text: str) -> str:
    """
    >>> _below("my/shop", "path='examples/checkout/clicks.csv'")
    "path='my/shop/checkout/clicks.csv'"
    """
    return text.replace("examples/", f"{folder}/")


def _check_new(files: dict[Path, bytes]) -> None:
    """What somebody may have changed is not replaced."""
    for path, data in files.items():
        if path.exists() and (not path.is_file() or path.read_bytes() != data):
            raise SetupError(f"{path} is there already, and is another", hint="name another folder, or remove it")


def _make_streams(name: str, tell: Callable[[str], None]) -> None:
    if Path(name).exists():
        tell(f"{name} is there already, and is left as it is")
        return
    from watersmeet.lab.files import write_files

    write_files(name, [], Path(name), "parquet", tell, overwrite=False)
