"""The plan of a query that a checkpoint notes, made again from its text: with its streams as they are declared now."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from watersmeet.errors import WatersmeetError
from watersmeet.model.catalog import Catalog
from watersmeet.plan.identity import identity_of
from watersmeet.plan.query import Plan
from watersmeet.plan.user_functions import brought_in
from watersmeet.warning import WatersmeetWarning

Text = Mapping[str, str]  # what is noted: `sql`, and the `timezone` it was read in


def text_of(plan: Plan) -> Text | None:
    """None if its text alone does not say all that it asks: it may name views, or values that were given beside it."""
    noted = {"sql": plan.sql, "timezone": plan.options.timezone}
    again = plan_of(noted, plan)
    return noted if again is not None and identity_of(again) == identity_of(plan) else None


def plan_of(noted: Text, beside: Plan) -> Plan | None:
    """beside: a plan that reads the same streams and tables, and has the same functions; None if it has not."""
    from watersmeet.sql import bind  # it loads the parser, which a start that reads no text does without

    catalog = Catalog()
    for relation in beside.relations:
        catalog.add(relation, replace=True)
    catalog.functions |= brought_in(beside)
    with warnings.catch_warnings():  # it was told when the query was first read
        warnings.simplefilter("ignore", WatersmeetWarning)
        try:
            return bind(noted["sql"], catalog, noted["timezone"])
        except WatersmeetError:
            return None
