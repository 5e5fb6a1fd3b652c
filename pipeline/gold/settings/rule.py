"""The parts of a rule: conditions on a group's numbers, and the row that it makes.

A rule is a native expression over the row of a group's numbers: a row of gold/settings,
or null. So all rules together are one look at each group, however many there are.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from kohort.pipeline.event_schema import ADVICE

MS_NS: Final = 1_000_000
FEWEST: Final = 3
"""Cases that a rule needs: one is an accident, and two may be the same one."""
HALF_SURE: Final = 3
"""The number of cases that makes a rule half sure, see `sure`."""
MARGIN: Final = 1.5
"""A suggested value divided by the need that was seen: the next case may be longer."""
RESTART_NS: Final[int] = ADVICE["restart_ns"]
"""The longest absence that a timeout is stretched over: that of a restart."""


def recommended(
    rule: str,
    setting: str,
    where: str,
    *conditions: Column,
    suggested: Column,
    evidence: Column,
    cases: Column,
    confidence: Column,
    rebalances_saved: Column | None = None,
    downtime_saved_s: Column | None = None,
) -> Column:
    """The row of gold/settings, without run and group, if all conditions are true."""
    nothing = F.lit(None)
    saved = nothing if rebalances_saved is None else rebalances_saved
    time = nothing if downtime_saved_s is None else downtime_saved_s
    row = F.struct(
        F.lit(rule).alias("rule"),
        F.lit(setting).alias("setting"),
        F.lit(where).alias("where"),
        suggested.cast("string").alias("suggested"),
        evidence.alias("evidence"),
        cases.cast("bigint").alias("cases"),
        saved.cast("bigint").alias("rebalances_saved"),
        time.cast("double").alias("downtime_saved_s"),
        confidence.cast("double").alias("confidence"),
    )
    return F.when(reduce(and_, conditions), row)


def sure(cases: Column, consistency: Column | None = None) -> Column:
    """The confidence of a rule: cases / (cases + 3), times a share of them (0 to 1).

    3 cases make 0.5, 12 make 0.8, 27 make 0.9: it never is 1. Two digits.
    """
    of_cases = cases / (cases + HALF_SURE)
    both = of_cases if consistency is None else of_cases * consistency
    return rounded(both, 2)


def said(template: str, *values: Column | str) -> Column:
    """A text with values. Engines cut ``%.1f`` at different digits: so it is rounded.

    Args:
        template: as Java and C spell it: ``%d``, ``%s``, ``%.1f``, ``%%``.
        values: a value or the name of a column for each of them.
    """
    digits = re.findall(r"%(?:\.(\d)f|[ds])", template.replace("%%", ""))
    columns = (F.col(each) if isinstance(each, str) else each for each in values)
    return F.format_string(
        template,
        *(
            rounded(column, int(count)) if count else column
            for column, count in zip(columns, digits, strict=True)
        ),
    )


def rounded(value: Column, digits: int) -> Column:
    """A number rounded half up, as its decimal digits are, to these many of them."""
    return F.round(value.cast("decimal(28,9)"), digits).cast("double")


def rounded_up(value: Column, step: int) -> Column:
    """The next multiple of a step that is not below, as long."""
    return (F.ceil(value / step) * step).cast("bigint")


def made(rule: str) -> Column:
    """The rebalances of the group that the rule would have avoided."""
    return F.coalesce(F.try_element_at("made", F.lit(rule)), F.lit(0))


def saved_s(rule: str) -> Column:
    """The downtime of the group that the rule would have saved; 0: none."""
    return F.coalesce(F.try_element_at("saved_s", F.lit(rule)), F.lit(0.0))


def number(name: str) -> Column:
    """A number of the group, 0 where it is not known."""
    return F.coalesce(F.col(name), F.lit(0))


def is_(condition: Column) -> Column:
    """A condition, false where it is not known."""
    return F.coalesce(condition, F.lit(False))
