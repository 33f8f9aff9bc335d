"""The streams of GO03's examples."""

from __future__ import annotations

from watersmeet.optimizer.cost.inputs import JoinGraph, StreamRate


def streams(*parameters: tuple[float, float, float]) -> JoinGraph:
    """S1, S2, … with (λ, T, v) each, joined on one attribute."""
    numbered = enumerate(parameters, start=1)
    return JoinGraph.on_one_key(StreamRate(f"S{number}", *given) for number, given in numbered)


def alike(count: int) -> JoinGraph:
    """Figures 2 and 3a: λ = 1, T = 100, v = 50."""
    return streams(*[(1, 100, 50)] * count)


TABLE_5 = streams((10, 100, 500), (1, 100, 50), (1, 200, 40), (3, 100, 5))
TABLE_6 = streams((100, 100, 200), (1, 100, 200), (1, 100, 20), (3, 100, 2))
TABLE_7 = streams((11, 100, 200), (10, 100, 100), (1, 100, 65), (1, 100, 20))
FIGURE_3B = streams((1, 100, 50), (1, 100, 50), (1, 100, 50), (10, 100, 50))


def order(digits: str) -> tuple[str, ...]:
    """`order("213")` is S2, S1, S3."""
    return tuple(f"S{digit}" for digit in digits)
