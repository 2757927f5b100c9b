"""The schema of the warehouse and the views over it, brought up to those of this program."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import duckdb

from warehouse.catalog import VIEWS, table_documents, view_sql
from warehouse.errors import WarehouseError
from warehouse.layout import utc_now


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Apply the numbered schema files this database has not seen, then refresh the views and the published values.

    Raises WarehouseError.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER, name VARCHAR, applied_at TIMESTAMP)"
    )
    applied = _applied(connection)
    migrations = schema_files()
    if applied > max(migrations):
        known = max(migrations)
        raise WarehouseError(f"the warehouse has schema version {applied}, this program knows {known}: upgrade it")
    for version in sorted(set(migrations) - set(range(applied + 1))):
        name, sql = migrations[version]
        connection.execute("BEGIN")
        connection.execute(sql)
        connection.execute("INSERT INTO schema_migrations VALUES (?, ?, ?)", [version, name, utc_now()])
        connection.execute("COMMIT")
    _refresh_views(connection)
    connection.execute("CHECKPOINT")


def schema_files() -> dict[int, tuple[str, str]]:
    """Version -> (file name, SQL) of every migration."""
    entries = [entry for entry in (files("warehouse") / "schema").iterdir() if re.match(r"\d+_.*\.sql$", entry.name)]
    return {int(entry.name.split("_")[0]): (entry.name, entry.read_text("utf-8")) for entry in entries}


def is_outdated(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether an older program wrote this database, or one of the same schema with other views."""
    applied, known = _applied(connection), max(schema_files())
    return applied < known or (applied == known and _shown(connection) != _offered())


def _applied(connection: duckdb.DuckDBPyConnection) -> int:
    return connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchall()[0][0]


def _refresh_views(connection: duckdb.DuckDBPyConnection) -> None:
    if _shown(connection) == _offered():
        return
    connection.execute("BEGIN")
    old = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    for (name,) in old:
        connection.execute(f'DROP VIEW IF EXISTS "{name}"')
    connection.execute(_published_table())
    for path in _published_values():
        connection.execute("INSERT INTO published BY NAME SELECT * FROM read_csv(?, all_varchar = true)", [str(path)])
    for name in VIEWS:
        connection.execute(view_sql(name))
    for document in table_documents():
        kind = document.kind.upper()
        connection.execute(f"COMMENT ON {kind} {document.name} IS {_quoted(document.summary)}")
    connection.execute("DELETE FROM view_state")
    connection.execute("INSERT INTO view_state VALUES (?)", [_offered()])
    connection.execute("COMMIT")


def _shown(connection: duckdb.DuckDBPyConnection) -> str:
    """Digest of the views and published values that the database holds, empty if it has none."""
    found = connection.execute("SELECT digest FROM view_state").fetchall()
    return found[0][0] if found else ""


@cache
def _offered() -> str:
    """Digest of those of this program."""
    parts = [*map(view_sql, VIEWS), _published_table(), *(path.read_text("utf-8") for path in _published_values())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _published_table() -> str:
    return (files("warehouse") / "schema" / "published.sql").read_text("utf-8")


def _published_values() -> list[Traversable]:
    return sorted((files("warehouse") / "published").iterdir(), key=lambda path: path.name)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
