"""The routes of a join in plain words, so that a join that goes on elsewhere goes by the routes it had found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from watersmeet.physical.strategy import Code, Comparison, JoinStrategy, Route, Step
from watersmeet.plan.expressions import Expression


def routes_in_words(strategy: JoinStrategy) -> dict[str, Any]:
    """By origin, the steps of its route. Codes are told by their place among those of their input."""
    places = {code: place for place, code in enumerate(_codes(strategy))}
    tests = {test: place for place, test in enumerate(strategy.residuals)}
    return {route.origin: [_step_in_words(step, places, tests) for step in route.steps] for route in strategy.routes}


def with_routes_in_words(strategy: JoinStrategy, words: dict[str, Any]) -> JoinStrategy:
    """The strategy with routes that another of the same plan had."""
    codes = _codes(strategy)
    tests = strategy.residuals
    routes = [Route(origin, tuple(_step(step, codes, tests) for step in steps)) for origin, steps in words.items()]
    return replace(strategy, routes=tuple(routes))


def _codes(strategy: JoinStrategy) -> list[Code]:
    """All codes that any route may use, in an order that depends on the plan alone."""
    return [code for one in strategy.join.inputs for code in strategy.stored_codes(one.alias)]


def _step_in_words(step: Step, places: dict[Code, int], tests: dict[Expression, int]) -> dict[str, Any]:
    return {
        "stream": step.stream,
        "access": step.access,
        "equalities": [[places[bound], places[own]] for bound, own in step.equalities],
        "comparisons": [[places[c.own], c.operator, places[c.bound]] for c in step.comparisons],
        "sorted_by": None if step.sorted_by is None else places[step.sorted_by],
        **({"then": [tests[test] for test in step.then]} if step.then else {}),
    }


def _step(words: dict[str, Any], codes: list[Code], tests: tuple[Expression, ...]) -> Step:
    return Step(
        words["stream"],
        words["access"],
        tuple((codes[bound], codes[own]) for bound, own in words["equalities"]),
        tuple(Comparison(codes[own], operator, codes[bound]) for own, operator, bound in words["comparisons"]),
        None if words["sorted_by"] is None else codes[words["sorted_by"]],
        tuple(tests[place] for place in words.get("then", ())),
    )
