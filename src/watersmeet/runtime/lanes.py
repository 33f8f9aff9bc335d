"""The lanes of a stream, such as the partitions of a topic: each has a time of its own, and the slowest holds them all.

The level of a stream is the time that every lane has reached. A lane that has been silent for as long as the stream
says no longer counts, until its next row. A lane that is known and has brought no row yet holds the level where it is.
"""

from __future__ import annotations

from collections.abc import Collection

from watersmeet.model.time import BEGINNING_US, FOREVER_US


class Lanes:
    STATE = ("newest_us", "active_at_s", "idle")

    def __init__(self) -> None:
        # By lane: its newest time that may move the watermark, when something last came, and whether it is silent.
        self.newest_us: dict[str, int] = {}
        self.active_at_s: dict[str, float] = {}
        self.idle: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self.newest_us)

    def know(self, names: Collection[str], now_s: float) -> bool:
        """The lanes that have rows which are not read yet; whether some are new. One that nothing has come of, and that
        is not among them any more, had none: it is forgotten."""
        for name in [one for one, us in self.newest_us.items() if us == BEGINNING_US and one not in names]:
            del self.newest_us[name], self.active_at_s[name], self.idle[name]
        new = [name for name in names if name not in self.newest_us]
        for name in new:
            self.newest_us[name], self.active_at_s[name], self.idle[name] = BEGINNING_US, now_s, False
        return bool(new)

    def came(self, name: str, newest_us: int, now_s: float) -> None:
        """Rows of a lane, late ones too, end its silence."""
        self.newest_us[name] = max(self.newest_us.get(name, BEGINNING_US), newest_us)
        self.active_at_s[name], self.idle[name] = now_s, False

    def others_us(self, name: str) -> int:
        """The time that all other lanes have reached."""
        others = (us for one, us in self.newest_us.items() if one != name and not self.idle[one])
        return min(others, default=FOREVER_US)

    @property
    def level_us(self) -> int:
        """The time that all lanes have reached; the beginning if none counts."""
        return min((us for one, us in self.newest_us.items() if not self.idle[one]), default=BEGINNING_US)

    @property
    def slowest(self) -> str | None:
        """The lane that the others wait for; None if there is but one, or none counts."""
        counting = [one for one in self.newest_us if not self.idle[one]]
        return min(counting, key=self.newest_us.__getitem__) if counting and len(self.newest_us) > 1 else None

    @property
    def next_silent_since_s(self) -> float | None:
        """When the lane that has been silent for longest last brought something."""
        return min((at_s for one, at_s in self.active_at_s.items() if not self.idle[one]), default=None)

    def fall_silent(self, since_s: float) -> bool:
        """Those that brought nothing since do not count any more; whether none counts."""
        for one, at_s in self.active_at_s.items():
            self.idle[one] = self.idle[one] or at_s <= since_s
        return all(self.idle.values())

    def mark_active(self, now_s: float) -> None:
        """Rows that wait to be read are no silence."""
        for one in self.active_at_s:
            if not self.idle[one]:
                self.active_at_s[one] = now_s
