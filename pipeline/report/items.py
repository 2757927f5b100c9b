"""What an entry for a table or figure of a paper is made of: a view, its columns, plots, a caption."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column of a view: `form` is a key of `sections.FORMS`; `std` names the column with its spread, `best` a truth
    value that prints it bold, `low` and `high` those of its range. A column of `keys` that is the same in all rows of a
    table is named below it instead."""

    name: str
    title: str
    form: str = "text"
    std: str = ""
    best: str = ""
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class Lines:
    """Panels of lines along `x`, one panel per setting and task, split further by `panels`.

    With one column in `y` there is a line per method, with several a line per column, over the rows of `method` where
    one is named."""

    title: str
    x: str
    y: dict[str, str]
    x_label: str
    y_label: str
    method: str = ""
    reference: float | None = None
    diagonal: bool = False
    panels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bars:
    """Panels of one bar per row, labelled by the column `label`."""

    title: str
    label: str
    value: str
    x_label: str


@dataclass(frozen=True, eq=False)
class Item:
    """One table or figure: `labels` are the items of the paper that it stands for, the first heads the section.

    `across` is a column whose values stand side by side, each with all of `values`. `where` is SQL on the view's
    columns.
    """

    paper: str
    labels: tuple[str, ...]
    title: str
    caption: str
    view: str
    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    across: str = ""
    where: str = ""
    plots: tuple[Lines | Bars, ...] = ()


METHOD = Column("method", "method", "method")
BUDGET = Column("budget", "D", "count")
VERIFIER = Column("verifier", "verifier")
PADDED = Column("padded", "padded", "flag")
FLOOR = Column("floor", "γ", "short")
TASK = Column("task", "task")
TEMPERATURE = Column("temperature", "T", "short")
BLOCK = Column("block_length", "block length", "count")
NFE = Column("nfe", "NFE", "one", std="nfe_std")
CUT = Column("nfe_reduction", "cut", "times")
RATIO = Column("ratio", "ratio", "times", std="ratio_std")
ANSWER = (Column("answer_reduction", "answer cut", "times"), Column("answer_ratio", "answer ratio", "times"))
FIGURES = (NFE, CUT, RATIO, *ANSWER)


def numbered(kind: str, *numbers: int | str) -> tuple[str, ...]:
    """`Table 2`, `Table 8`, ... """
    return tuple(f"{kind} {number}" for number in numbers)
