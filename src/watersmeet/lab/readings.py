"""Where the papers are ambiguous or contradict themselves, and how they are read here. Code and reports cite these."""

from __future__ import annotations

import re

from watersmeet.dataclass import dataclass

CITED = re.compile(r"AMB-\d\d")


@dataclass(frozen=True)
class Reading:
    paper: str
    problem: str
    reading: str


READINGS: dict[str, Reading] = {
    "AMB-01": Reading(
        "K05", "Equation 2 divides the scans of both sides by the buckets of one", "each side by its own buckets"
    ),
    "AMB-02": Reading(
        "K05",
        "stale rows are foreseen `in buffer B` as the ratio of the rates",
        "per bucket; times buckets for all of it",
    ),
    "AMB-03": Reading(
        "K05",
        "the cost of a join is twice one half, and of four strategies three are announced",
        "the sum of two different halves; four",
    ),
    "AMB-04": Reading(
        "GO03", "the hash join subtracts a number of rows, λT, from a time", "it subtracts the window, T"
    ),
    "AMB-05": Reading(
        "GO03",
        "the batch of a moment is closed on both ends, so that rows on the border are in two",
        "NOW - τ < ts <= NOW",
    ),
    "AMB-06": Reading(
        "GO03",
        "rows of equal time in two windows find each other twice",
        "one order for all: time, then the place in FROM",
    ),
    "AMB-07": Reading(
        "GO03",
        "windows of rows are one too large and have no upper end",
        "the last C rows before the one that is joined",
    ),
    "AMB-08": Reading(
        "GO03", "the oldest row of a bucket is overwritten", "the oldest of the window goes, in whichever bucket it is"
    ),
    "AMB-09": Reading(
        "GO03",
        "the generator counts rows, the windows count units of time",
        "a unit is as many rows as the rates sum up to",
    ),
    "AMB-10": Reading(
        "GO03",
        "the heuristic leaves ties and directions open, and calls a tie what is none",
        "the least intermediate result first, step by step, then fast streams move up; this gives the orders of Tables "
        "5 and 7, and the best of Table 6",
    ),
    "AMB-11": Reading(
        "GO03",
        "with conditions other than equality only the new row is compared",
        "every condition is tested once both of its sides are known, in its own direction",
    ),
    "AMB-12": Reading("GO03", "`optimal frequency increases with buckets`", "the best interval grows with the buckets"),
    "AMB-13": Reading("GO03", "a bucket holds T/b rows", "λT/b"),
    "AMB-14": Reading(
        "H02",
        "a row leaves if it is far from another stream's last row, on either side",
        "only if it is older; not before the row itself was joined",
    ),
    "AMB-15": Reading(
        "H02",
        "the merge join's second mode starts from one combination only, and loses some",
        "each new row is joined with all that is held",
    ),
    "AMB-16": Reading(
        "H02",
        "how LCA moves on is not given; the plain rule may never end",
        "at a new start rows that cannot reach it are dropped",
    ),
    "AMB-17": Reading(
        "H02", "whether times on a path may be equal", "they may; a path that goes both ways counts once"
    ),
    "AMB-18": Reading("H02", "a figure's words and a query name the wrong stream", "what the drawing shows"),
    "AMB-19": Reading("H02", "which time of a combination decides that it leaves", "that of its oldest row"),
    "AMB-20": Reading(
        "H02", "when rarely probed buckets are purged", "every 1,000 arrivals; results do not depend on it"
    ),
    "AMB-21": Reading("H04", "λ is called a mean and a rate", "a rate"),
    "AMB-22": Reading(
        "H04",
        "the rule keeps a row for its window and an instant more, Figure 4 does not",
        "half-open windows; closed ones can be asked for",
    ),
    "AMB-23": Reading(
        "H04", "W-MINUS compares two counts by `>` where its own example needs more", "`>=` after the count has changed"
    ),
    "AMB-24": Reading(
        "H04", "W-MINUS may replace a row by one that is in the output already", "by the newest that is not"
    ),
    "AMB-25": Reading(
        "H04",
        "W-DISTINCT puts the row that expires back, and is silent where a duplicate stays",
        "the newest duplicate takes its place, told as one row out and one in",
    ),
    "AMB-26": Reading(
        "DGR03",
        "the sum of the archive metric has wrong indices and counts what is complete",
        "rows that miss a partner, both streams",
    ),
    "AMB-27": Reading("DGR03", "a node is missing in the drawn flow graph", "the graph as its rules build it"),
    "AMB-28": Reading(
        "DGR03",
        "memory larger than the window, odd memory and the warm-up have no flow",
        "a chain of idle places; halves rounded; no gain before 2w",
    ),
    "AMB-29": Reading("DGR03", "whether one stream or both are skewed in Figures 3 and 5", "both"),
    "AMB-30": Reading(
        "DGR03",
        "LIFE is told to be hardly better than RAND",
        "as it is defined it comes near PROB; it is shown as it is, nothing was tuned",
    ),
    "AMB-31": Reading(
        "DGR03", "the lifetime that is left is one off, and other small slips", "the arrivals that a row can still meet"
    ),
    "AMB-32": Reading("DGR03", "whether RAND may drop the row that has just come", "it may"),
    "AMB-33": Reading(
        "H04", "W-GROUP-BY mixes up the groups of new and expired rows", "the group that changed is told, by its key"
    ),
    "AMB-34": Reading(
        "H04", "the queries of Figure 9 and W-INTERSECT are not in the text", "made of the parts that the text names"
    ),
    "AMB-35": Reading(
        "H04",
        "the clock of an operator with two inputs, and what comes first at one instant",
        "the smaller of its inputs' times; of half-open windows rows leave first",
    ),
}
