"""What readers get from a snapshot that another version of the program published."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from warehouse_for_tests import make_rounds, make_run, make_samples

import warehouse
from warehouse import Store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A closed home with one published run."""
    with Store(tmp_path / "home") as store:
        store.add_run(make_run(), make_samples(), make_rounds({"tiny-math/test/0": [1, 2]}))
        store.publish()
    return tmp_path / "home"


def change_snapshot(home: Path, *statements: str) -> bytes:
    with duckdb.connect(str(home / "snapshot.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)
    return (home / "snapshot.duckdb").read_bytes()


def test_a_snapshot_of_an_older_program_is_read_with_the_columns_and_views_of_this_one(home: Path) -> None:
    before = change_snapshot(
        home,
        "DROP VIEW first_rejections",
        "CREATE OR REPLACE VIEW cells AS SELECT 1 AS other",
        "ALTER TABLE rounds DROP COLUMN true_order_rank",
        "DELETE FROM schema_migrations WHERE version >= 7",
        "UPDATE view_state SET digest = 'older'",
    )
    with warehouse.connect(home) as connection:
        assert connection.execute("SELECT count(order_rank) FROM first_rejections").fetchall() == [(0,)]
        assert "other" not in [column for column, *_ in connection.execute("DESCRIBE cells").fetchall()]
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("DELETE FROM rounds")
    assert (home / "snapshot.duckdb").read_bytes() == before


def test_a_snapshot_of_a_newer_program_is_read_as_it_is(home: Path) -> None:
    change_snapshot(home, "INSERT INTO schema_migrations VALUES (99, 'later', now())", "CREATE VIEW later AS SELECT 7 AS n")
    with warehouse.connect(home) as connection:
        assert connection.execute("SELECT n FROM later").fetchall() == [(7,)]
