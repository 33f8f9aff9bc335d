"""A run that goes on and does not find what it has written: rows are gone, and nobody shall hear of it by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from watersmeet.errors import OptionError, SinkError
from watersmeet.io.connectors.contract import NumberedSink, SinkOpening
from watersmeet.warning import ConnectorWarning

OPTION = "if_gone"
# Of whatever else goes wrong while a run goes on.
GO_ON = "mend that, then start again with the same checkpoint: nothing is lost"


def gone(opening: SinkOpening, what: str) -> SinkError:
    """what: what the sink did not find, as a sentence."""
    return SinkError(f"{_given(opening.name, opening.committed)}, but {what}", hint=_way_out())


def check_committed(
    name: str, sink: NumberedSink, committed: int, option: str | None, tell: Callable[[Warning], None]
) -> None:
    """Compare what a sink has with what the checkpoint knows it was given. option: what the user says of it."""
    found = sink.committed()
    if found >= committed:
        return
    has = "has none of them" if found < 0 else f"has them up to batch {found:,} only"
    said = f"{_given(name, committed)}, and it {has}"
    may_forget = option == "make" if option is not None else sink.may_forget
    if not may_forget:
        sink.close()
        raise SinkError(said, hint=_way_out())
    tell(ConnectorWarning("sink_gone", f"{said}; the run goes on with what comes next"))


def makes_anew(name: str, options: Mapping[str, str]) -> bool:
    said = options.get(OPTION, "error").strip().lower()
    if said not in ("error", "make"):
        raise OptionError(
            f"{name!r} has {OPTION} = {options[OPTION]!r}",
            hint="it may be 'error', which ends the run, or 'make', which goes on without what is gone",
            option=OPTION,
        )
    return said == "make"


def _given(name: str, committed: int) -> str:
    return f"sink {name!r} was given the answers of this run up to batch {committed:,}"


def _way_out() -> str:
    return (
        "it was removed, or put back to an older state, or the sink was another one before: bring it back, or start "
        f"anew with a new checkpoint; {OPTION} = 'make' goes on without what is gone"
    )
