"""The Markdown summary for the terminal: the main table, then what was found and what is missing."""

from __future__ import annotations

from pipeline.report.data import ReportData
from pipeline.report.findings import gaps, headlines
from pipeline.report.numbers import MISSING, number, span, spread
from pipeline.report.shape import Entry, MainTable, main_tables

MARKS = {1: ("**", "**"), 2: ("_", "_"), None: ("", "")}


def markdown(data: ReportData) -> str:
    """Aligned Markdown tables, one per setting; the best value bold, the second in underscores."""
    parts = [f"# {data.experiment['name']}"]
    tables = main_tables(data.cells)
    for table in tables:
        parts.append(f"## {table.setting.title}\n\n{_table(table)}")
    if tables:
        parts.append(
            "NFE per sample (times fewer than the control; throughput over the control). **Best** and _second_ of each "
            "budget; ± is one standard deviation over seeds."
        )
    for title, lines in (("Found", headlines(data)), ("Missing", gaps(data))):
        if lines:
            parts.append(f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines))
    return "\n\n".join(parts) + "\n"


def _table(table: MainTable) -> str:
    rows = [["method", "D", *table.tasks], ["accuracy", "", *(span(table.accuracy[task]) for task in table.tasks)]]
    for line in table.lines:
        label = f"{line.label} {line.mark}".rstrip()
        rows.append([label, str(line.budget or MISSING), *(_entry(line.entries.get(task)) for task in table.tasks)])
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| "
        + " | ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in rows
    ]
    rule = (
        "|"
        + "|".join("-" * (width + 2) if column == 0 else "-" * (width + 1) + ":" for column, width in enumerate(widths))
        + "|"
    )
    note = "".join(f"\n\n{mark} {text}." for mark, text in table.marks.items())
    return "\n".join([lines[0], rule, *lines[1:]]) + note


def _entry(entry: Entry | None) -> str:
    if entry is None:
        return MISSING
    row = entry.row
    nfe = _marked(number(row["nfe"], 1), entry.nfe_rank) + spread(row["nfe_std"], 1)
    ratio = _marked(number(row["ratio"], 2, "×"), entry.ratio_rank) + spread(entry.ratio_std, 2)
    return f"{nfe} ({number(row['nfe_reduction'], 2, '×')}; {ratio})"


def _marked(text: str, rank: int | None) -> str:
    before, after = MARKS[rank]
    return f"{before}{text}{after}"
