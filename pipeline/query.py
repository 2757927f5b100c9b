"""SQL on the published snapshot, for the command line."""

from __future__ import annotations

from pathlib import Path

import duckdb

from pipeline.tables import render
from warehouse import connect, tables
from workers.errors import UserError


def run_query(home: Path, query: str, form: str) -> str:
    """The result of a query as text; of several statements the last one counts. UserError for SQL that does not run."""
    if not query.strip():
        raise UserError("sql: the query is empty; `python -m pipeline sql --tables` lists what there is")
    with connect(home) as connection:
        try:
            result = connection.execute(query)
            columns = [column[0] for column in result.description or ()]
            rows = result.fetchall()
        except duckdb.Error as error:
            raise UserError(f"sql: {' '.join(str(error).split())}") from None
    return render(columns, rows, form)


def describe_tables(home: Path) -> str:
    """Every view and table with what it and its columns mean."""
    parts = []
    for document in tables(home):
        rows = "" if document.rows is None or document.kind == "view" else f", {document.rows} rows"
        parts.append(f"{document.name} ({document.kind}{rows}): {document.summary}")
        width = max((len(name) for name in document.columns), default=0)
        parts += [f"    {name:<{width}}  {meaning}" for name, meaning in document.columns.items()]
    return "\n".join(parts)
