"""H02: Hammad, Aref and Elmagarmid, Joining Multiple Data Streams with Window Constraints (2002).

Runs of `paper` scale last a minute, or a week of sales; 10x and 100x are as many times longer. What the paper does not
say, and what is used, stands beside each experiment; `serving.py` says what is measured.
"""

from __future__ import annotations

from watersmeet.lab.experiment import Experiment
from watersmeet.lab.papers.h02.examples import WORKED
from watersmeet.lab.papers.h02.figure_9 import E9A, E9B, E9C
from watersmeet.lab.papers.h02.flights import BASELINES_WITH_FLIGHTS, WITH_FLIGHTS
from watersmeet.lab.papers.h02.pizzas import BASELINES_WITH_PIZZAS, WITH_PIZZAS
from watersmeet.lab.papers.h02.sales import E7, E8
from watersmeet.lab.papers.h02.serving import HW, MW, NLW, RIPPLE, XJOIN
from watersmeet.lab.papers.h02.windows_and_paths import E13, E14
from watersmeet.lab.papers.running import have_flights
from watersmeet.lab.workloads.pizzas import have_pizzas

__all__ = ["BASELINES_WITH_FLIGHTS", "EXPERIMENTS", "HW", "MW", "NLW", "RIPPLE", "WITH_FLIGHTS", "XJOIN"]

EXPERIMENTS: tuple[Experiment, ...] = (
    *(E7, E8, E9A, E9B, E9C, E13, E14),
    *WORKED,
    *((BASELINES_WITH_FLIGHTS, WITH_FLIGHTS) if have_flights() else ()),
    *((BASELINES_WITH_PIZZAS, WITH_PIZZAS) if have_pizzas() else ()),
)
