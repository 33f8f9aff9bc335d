"""Who owns an Iceberg table, for one run: a property of it, which changes in the commits of claims and batches.

A catalog compares only which snapshot was the last, so a claim makes one, without rows: a batch that was under way
meets it, and before the library tries such a commit again it is looked who owns the table by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from pyiceberg.table import Table

from watersmeet.errors import SinkError
from watersmeet.io.connectors.claims import TRIES, Claim, Owner, owner_in
from watersmeet.io.connectors.contract import SinkOpening


class Meanwhile(Exception):  # noqa: N818 (nothing is wrong)
    """The table has changed since it was looked at."""


class LookedAt(Table):  # type: ignore[misc]
    """A table at which somebody looks whenever it is read anew: also by the library, before it tries again."""

    def __init__(self, table: Table, look: Callable[[Table], None]) -> None:
        super().__init__(
            table._identifier, table.metadata, table.metadata_location, table.io, table.catalog, table.config
        )
        self._look = look

    def refresh(self) -> Table:
        super().refresh()
        self._look(self)
        return self


class IcebergClaim:
    def __init__(self, opening: SinkOpening, run: str) -> None:
        self._claim = Claim.of(opening)
        self._key = f"watersmeet.owner.{run}"

    @property
    def written_by(self) -> str | None:
        return self._claim.written_by

    def take_over(self, table: Table) -> Table:
        """The table, which is this start's from now on, as it is then."""
        if not self._claim.is_made:
            return table
        for _ in range(TRIES):
            with suppress(Meanwhile):
                now = LookedAt(table.refresh(), _changed)
                owner = self._claim.taking_over(self._found(now))
                with now.transaction() as change:
                    change.append(now.schema().as_arrow().empty_table())
                    change.set_properties({self._key: owner.as_text()})
                return LookedAt(now, self.check)
        raise SinkError("others commit there all the while", hint="start again with the same checkpoint")

    def check(self, table: Table) -> None:
        if self._claim.is_made:
            self._claim.check(self._found(table))

    def properties(self, table: Table) -> Mapping[str, str]:
        """What a commit sets beside its number."""
        now = self._claim.committed(self._found(table)) if self._claim.is_made else None
        return {} if now is None else {self._key: now.as_text()}

    def _found(self, table: Table) -> Owner | None:
        return owner_in(table.properties.get(self._key), f"property {self._key}")


def _changed(table: Table) -> None:
    raise Meanwhile
