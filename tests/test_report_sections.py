"""The tables and figures of the papers in the report: the registry fits the views, and the page shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from report_home import build_home
from warehouse_for_tests import memory_warehouse

from pipeline.report import write_report
from pipeline.report.data import ITEMS, Row
from pipeline.report.items import ANSWER, BUDGET, METHOD, NFE, RATIO, TASK, Bars, Column, Item, Lines
from pipeline.report.sections import FORMS, SETTINGS, anchor, build_sections, not_measured
from warehouse.columns import CELL_COLUMNS

HOSTILE = "<script>alert(1)</script>"
SPOT_ITEMS = {f"Table {number}" for number in range(1, 23)} | {f"Figure {name}" for name in "2a 2b 3 4 5a 5b".split()}


def row(method: str, budget: int, task: str, nfe: float, ratio: float | None = 1.5, **changes: object) -> Row:
    """A row with the columns of ITEM."""
    row = {"method": method, "budget": budget, "task": task, "nfe": nfe, "nfe_std": 0.25, "ratio": ratio}
    row |= {"ratio_std": None, "answer_reduction": 2.0, "answer_ratio": 1.0, "temperature": 0.0, "n_samples": 4}
    row |= {"n_seeds": 2, "best": False}
    return row | changes


ITEM = Item(
    "SPOT",
    ("Table 99",),
    "Title",
    "Caption.",
    "main_table",
    (BUDGET, METHOD),
    (Column("nfe", "NFE", "one", std="nfe_std", best="best"), RATIO, *ANSWER),
    across="task",
    plots=(Lines("forwards", "budget", {"nfe": ""}, "budget", "NFE"), Bars("bars", "method", "nfe", "NFE")),
)


def text_of(item: Item, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The cells of the first table of the item's section."""
    monkeypatch.setattr("pipeline.report.sections.ITEMS", (item,))
    section = build_sections({item: rows})[0]
    return [[cell.text for cell in line] for line in section.panes[0].body]


@pytest.fixture(scope="module")
def columns() -> dict[str, set[str]]:
    """The columns of every view that an item reads; the items' own conditions must bind as well."""
    with memory_warehouse() as connection:
        found = {}
        for item in ITEMS:
            condition = f" WHERE {item.where}" if item.where else ""
            rows = connection.sql(f"SELECT * FROM {item.view}{condition}")
            found[item.view] = {name for name, *_ in rows.description}
        return found


@pytest.mark.parametrize("item", ITEMS, ids=anchor)
def test_every_column_of_an_item_is_one_of_its_view(item: Item, columns: dict[str, set[str]]) -> None:
    used = {getattr(c, name) for c in (*item.keys, *item.values) for name in ("name", "std", "best", "low", "high")}
    for plot in item.plots:
        used |= {plot.label, plot.value} if isinstance(plot, Bars) else {plot.x, *plot.y, *plot.panels}
    assert (used | {item.across, "experiment"}) - {""} <= columns[item.view]
    assert all(column.form in FORMS for column in (*item.keys, *item.values))


def test_sections_have_names_of_their_own_and_stand_for_every_item_of_the_paper() -> None:
    names = [anchor(item) for item in ITEMS]
    assert len(names) == len(set(names))
    assert {label for item in ITEMS if item.paper == "SPOT" for label in item.labels} == SPOT_ITEMS


def test_rows_become_lines_with_the_tasks_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("tree", 8, "b", 30), row("spot", 8, "a", 10.25), row("spot", 8, "b", 20), row("spot", 4, "a", 40, None)]
    assert text_of(ITEM, rows, monkeypatch) == [
        ["4", "spot", "40.0", "–", "2.00×", "1.00×", "–", "–", "–", "–"],
        ["8", "spot", "10.2", "1.50×", "2.00×", "1.00×", "20.0", "1.50×", "2.00×", "1.00×"],
        ["8", "tree", "–", "–", "–", "–", "30.0", "1.50×", "2.00×", "1.00×"],
    ]


def test_what_is_the_same_in_all_rows_is_said_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.report.sections.ITEMS", (ITEM,))
    pane = build_sections({ITEM: [row("spot", 8, "a", 10), row("tree", 8, "a", 20)]})[0].panes[0]
    assert [column.name for column in pane.lead] == ["method"]
    assert pane.note == "4 samples, 2 seeds, D 8"


def test_settings_that_differ_split_tables_and_title_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.report.sections.ITEMS", (ITEM,))
    rows = [row("spot", 8, "a", 10), row("spot", 8, "a", 20, temperature=1.0), row("spot", 8, "a", 30, n_samples=2)]
    section = build_sections({ITEM: rows})[0]
    assert [pane.title for pane in section.panes] == ["T = 0, samples: 4", "T = 1, samples: 4", "T = 0, samples: 2"]
    assert [pane.body[0][2].text for pane in section.panes] == ["10.0", "20.0", "30.0"]
    assert [len(figure.panels) for figure in section.figures] == [3, 3]


def test_values_that_no_row_has_take_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("spot", 8, "a", 10, None), row("spot", 4, "a", 20, None)]
    assert text_of(ITEM, rows, monkeypatch)[0] == ["4", "spot", "20.0", "2.00×", "1.00×"]


def test_a_range_stands_beside_a_figure_or_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    column = Column("ratio", "ratio", "figure", low="low", high="high")
    item = Item("", (), "Title", "Caption.", "main_table", (METHOD,), (column,))
    rows = [row("spot", 8, "a", 1, 1.5, low=1.25, high=2.0), row("tree", 8, "a", 1, None, low=-1.0, high=3.0)]
    rows += [row("other", 8, "a", 1, None, low=None, high=3.0)]
    monkeypatch.setattr("pipeline.report.sections.ITEMS", (item,))
    cells = [line[1] for line in build_sections({item: rows})[0].panes[0].body]
    assert [(cell.text, cell.spread) for cell in cells] == [("1.5", " 1.25 to 2"), ("−1 to 3", ""), ("≤ 3", "")]


def test_missing_items_are_named_for_papers_that_were_begun() -> None:
    measured = next(item for item in ITEMS if item.labels == ("Table 4",))
    missing = not_measured({item: [row("spot", 8, "a", 1)] if item is measured else [] for item in ITEMS})
    assert missing.keys() == {"SPOT"}
    assert set(missing["SPOT"]) == SPOT_ITEMS - {"Table 4"}
    assert not_measured({}) == {}


@pytest.mark.parametrize("item", ITEMS, ids=anchor)
def test_no_two_cells_share_a_place(item: Item, columns: dict[str, set[str]]) -> None:
    """Every cell column of the view leads a line or splits tables; otherwise one row would hide another."""
    told = {column.name for column in item.keys} | {item.across} | set(SETTINGS) | {"drafter"}
    assert columns[item.view] & set(CELL_COLUMNS) - told == set()


def test_the_page_has_the_sections_and_escapes_what_they_show(tmp_path: Path) -> None:
    home = build_home(
        tmp_path,
        methods=("spot",),
        budgets=(2, 4, 8),
        seeds=(0,),
        temperatures=(0.0,),
        tasks=(HOSTILE, "tiny-math"),
        samples=1,
        artifacts=False,
    )
    page = write_report(home, "synthetic").read_text("utf-8")
    part = page[page.index('<section id="papers">') :]
    names = re.findall(r'<details class="item" id="([^"]*)"', part)
    assert {"paper-spot-table-02", "paper-spot-table-20", "paper-spot-figure-3", "paper-spot-figure-4"} <= set(names)
    assert "paper-spot-table-07" not in names and re.search(r"SPOT, not measured here: Table 1, .*Table 7", part)
    assert HOSTILE not in page and "&lt;script&gt;" in part
    assert page.index('<section id="records">') < page.index('<section id="papers">')


def test_a_snapshot_without_the_views_has_no_sections(tmp_path: Path) -> None:
    import duckdb

    home = build_home(
        tmp_path, methods=(), budgets=(8,), seeds=(0,), temperatures=(0.0,), tasks=("tiny-math",), artifacts=False
    )
    with duckdb.connect(str(home / "snapshot.duckdb")) as connection:
        for item in ITEMS:
            connection.execute(f"DROP VIEW IF EXISTS {item.view}")
    assert '<section id="papers">' not in write_report(home, "synthetic").read_text("utf-8")


def test_forms_say_nothing_where_there_is_nothing() -> None:
    assert {name for name, form in FORMS.items() if name != "method" and form(None) != "–"} == set()
    assert (NFE.form, TASK.form) == ("one", "text")


def test_what_rounds_to_zero_has_no_sign() -> None:
    assert [FORMS["signed_two"](value) for value in (-0.001, 0.0, 0.004, -0.25, 10.0)] == [
        "0.00",
        "0.00",
        "0.00",
        "−0.25",
        "+10.00",
    ]
    assert [FORMS["signed"](value) for value in (-0.04, 0.06)] == ["0.0", "+0.1"]
