"""Conditions on one row or on two, which mean the same in both languages."""

from __future__ import annotations

import random

ALONE = (
    "{u}.x > 1",
    "{u}.x BETWEEN -1 AND 3",
    "{u}.s LIKE 'a%'",
    "{u}.s <> ''",
    "{u}.k IS NOT NULL",
    "{u}.k IS NULL OR {u}.x < 3",
    "{u}.f >= 0",
    "{u}.d > 1.5",
    "{u}.g > 0",
    "NOT ({u}.x = 2)",
    "{u}.x IN (1, 2, 3)",
    "{u}.x NOT IN (1, 2)",
    "{u}.y > 9007199254740992",
    "{u}.x IS DISTINCT FROM 2",
    "LENGTH({u}.s) > 0",
    "COALESCE({u}.x, 3) > 2",
    "CASE WHEN {u}.k > 1 THEN {u}.x ELSE {u}.k END > 0",
)
EQUAL = (
    "{u}.k = {v}.k",
    "{u}.k = {v}.k",
    "{u}.k = {v}.k",
    "{u}.s = {v}.s",
    "{u}.x = {v}.x",
    "{u}.k = {v}.x",
    "{u}.d = {v}.d",
    "{u}.d = {v}.x",
    "{u}.y = {v}.y",
    "{u}.g = {v}.g",
    "{u}.f = {v}.x",
    "{u}.x + 1 = {v}.x",
    "{u}.k = {v}.k AND {u}.s = {v}.s",
    "LOWER({u}.s) = LOWER({v}.s)",
    "{u}.k IS NOT DISTINCT FROM {v}.k",
)
THETA = (
    "{u}.x < {v}.x",
    "{u}.x <= {v}.x",
    "ABS({u}.x - {v}.x) <= 2",
    "{v}.x BETWEEN {u}.x - 1 AND {u}.x + 2",
    "{u}.f < {v}.f",
    "{v}.f BETWEEN {u}.f - 0.5 AND {u}.f + 0.5",
    "{v}.d BETWEEN {u}.d - 1 AND {u}.d + 1",
    "{u}.g > {v}.g",
    "{u}.y < {v}.y",
    "{u}.s < {v}.s",
    "{u}.k <> {v}.k",
    "{u}.x + {v}.x > 2",
    "{u}.k = {v}.k AND {u}.x < {v}.x",
    "{u}.k = {v}.k OR {u}.x = {v}.x",
    "{u}.k < {v}.f",
    "{v}.x > {u}.f AND {v}.x <= {u}.f + 3",
)


def alone(draw: random.Random, alias: str) -> str:
    return f"({draw.choice(ALONE).format(u=alias)})"


def between(draw: random.Random, u: str, v: str, equal: float = 0.6) -> str:
    return f"({draw.choice(EQUAL if draw.random() < equal else THETA).format(u=u, v=v)})"


def column(draw: random.Random, alias: str) -> str:
    return f"{alias}.{draw.choice(('k', 'x', 'y', 'f', 'g', 'd', 's', 'ts', 'l'))}"
