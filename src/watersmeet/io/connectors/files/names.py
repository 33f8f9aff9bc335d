"""What files of runs are called: by the run and the number of the batch, and where several were merged also by the
first of them. The last counts: after a crash the names tell what the sink has."""

from __future__ import annotations

import re

from watersmeet.dataclass import dataclass

STARTS = "_starts-"  # and a run: a folder that says which of its starts owns the sink, where no lock can
COMMITTED = "_commit-{run}.json"  # says up to which batch all files are there, where a commit is several
NO_HEADER = ".no-header-"  # and a run: files of text of it begin with rows
_NAME = re.compile(r"part-(?P<run>[0-9a-f]+)-(?P<last>\d{15})(?:\.from-(?P<first>\d{15}))?\.(?P<kind>[a-z]+)")


@dataclass(frozen=True)
class PartName:
    run: str
    first: int
    last: int
    kind: str

    @staticmethod
    def of(name: str) -> PartName | None:
        """
        >>> PartName.of("part-0a1b-000000000000012.json")
        PartName(run='0a1b', first=12, last=12, kind='json')
        >>> str(PartName("0a1b", 3, 12, "csv")), PartName.of("part-00001-0a1b2c3d.csv")
        ('part-0a1b-000000000000012.from-000000000000003.csv', None)
        """
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return PartName(found["run"], int(found["first"] or found["last"]), int(found["last"]), found["kind"])

    @property
    def is_merged(self) -> bool:
        return self.first != self.last

    def is_in(self, merged: PartName) -> bool:
        """Whether its rows are in a file that holds those of several."""
        return (self.run, self.kind) == (merged.run, merged.kind) and merged.first <= self.first <= merged.last

    def __str__(self) -> str:
        merged = f".from-{self.first:015d}" if self.is_merged else ""
        return f"part-{self.run}-{self.last:015d}{merged}.{self.kind}"
