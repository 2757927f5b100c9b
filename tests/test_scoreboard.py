"""Published figures beside ours: what answers what, on runs made for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from warehouse_for_tests import make_run, make_samples, memory_warehouse, put, rows

from warehouse import Store, connect

PAPER = {"temperature": 0.0, "generation_length": 256, "block_length": 32}


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with memory_warehouse() as connection:
        yield connection


def decoded(connection: duckdb.DuckDBPyConnection, method: str, nfe: float, wall: float, **changes: Any) -> None:
    run = make_run(method, **(PAPER | {"verifier": "none" if method == "control" else "greedy"} | changes))
    run["identity"] = run["run_id"] = "-".join(str(value) for value in run.values())
    put(connection, run, make_samples(nfe=(nfe,), wall=(wall,)))


def board(connection: duckdb.DuckDBPyConnection, where: str) -> list[dict[str, Any]]:
    return rows(connection, f"SELECT * FROM scoreboard WHERE {where}")


def test_table_7_is_whole_and_every_figure_says_where_it_stands(connection: duckdb.DuckDBPyConnection) -> None:
    """Nine settings of 2 figures without drafts, and 3 of each oracle and budget."""
    count = "SELECT count(*) AS n, count(value) AS filled FROM published WHERE item = 'Table 7' AND paper = 'SPOT'"
    assert rows(connection, count) == [{"n": 9 * (2 + 3 * 9), "filled": 9 * (2 + 3 * 9)}]
    joint = "method = 'oracle-joint' AND target = 'sdar-8b' AND block_length = 16 AND task = 'gsm8k' AND budget = 20"
    found = rows(connection, f"SELECT quantity, value FROM published WHERE {joint} ORDER BY quantity")
    assert [tuple(row.values()) for row in found] == [("nfe", 39.8), ("nfe_reduction", 6.6), ("ratio", 5.57)]
    bad = "provenance IS NULL OR unit IS NULL OR quantity IS NULL OR coalesce(value, value_low, value_high) IS NULL"
    assert rows(connection, f"SELECT * FROM published WHERE {bad} OR value_low > value_high") == []
    assert {row["paper"] for row in rows(connection, "SELECT DISTINCT paper FROM published")} == {"SPOT", "Trajectory"}


def test_no_published_figure_stands_twice(connection: duckdb.DuckDBPyConnection) -> None:
    twice = "SELECT * EXCLUDE (provenance) FROM published GROUP BY ALL HAVING count(*) > 1"
    assert rows(connection, twice) == []


def test_without_runs_everything_is_unmeasured(connection: duckdb.DuckDBPyConnection) -> None:
    counted = rows(connection, "SELECT experiment, setting, count(*) AS n FROM scoreboard GROUP BY ALL")
    everything = rows(connection, "SELECT count(*) AS n FROM published")[0]["n"]
    assert counted == [{"experiment": None, "setting": "not measured", "n": everything}]


def test_the_same_setting_and_another_target(connection: duckdb.DuckDBPyConnection) -> None:
    """64 tokens in 1 s against 4 s. The 8B answers GSM8K itself; tiny-math answers GSM8K on the smaller target alone."""
    for target, task, factor in (("sdar-8b", "gsm8k", 1.0), ("tiny-sdar", "tiny-math", 0.5)):
        decoded(connection, "control", 200 * factor, 4.0, target=target, task=task, experiment=target)
        decoded(connection, "oracle-joint", 40 * factor, 1.0, target=target, task=task, experiment=target, budget=12)
    where = "item = 'Table 7' AND target = 'sdar-8b' AND block_length = 32 AND budget = 12 AND method = 'oracle-joint'"
    same = {(r["task"], r["quantity"]): r for r in board(connection, f"experiment = 'sdar-8b' AND {where}")}
    assert same["gsm8k", "nfe"] | {"ours": 40.0, "published": 38.2, "setting": "same setting"} == same["gsm8k", "nfe"]
    assert (same["gsm8k", "ratio"]["ours"], same["gsm8k", "ratio"]["published"]) == (4.0, 4.56)
    assert same["math500", "nfe"]["setting"] == "same quantity, another target"  # another benchmark of its kind
    assert (same["mbpp", "nfe"]["setting"], same["mbpp", "nfe"]["ours"]) == ("not measured", None)
    tiny = {(r["task"], r["quantity"]): r for r in board(connection, f"experiment = 'tiny-sdar' AND {where}")}
    row = tiny["gsm8k", "nfe_reduction"]
    assert (row["ours"], row["ours_target"], row["ours_tasks"]) == (5.0, "tiny-sdar", "tiny-math")
    assert (row["setting"], row["n_seeds"], row["n_samples"]) == ("same quantity, another target", 1, 1)


def test_what_does_not_answer(connection: duckdb.DuckDBPyConnection) -> None:
    """Another budget, temperature, block length, stop or commit rule is another quantity, and so is a far length."""
    changes = ({"budget": 9}, {"temperature": 0.5}, {"block_length": 64}, {"stop": "eos"}, {"commit_rule": "top-k:2"})
    for change in (*changes, {"generation_length": 32}):
        decoded(connection, "oracle-joint", 40, 1.0, task="tiny-math", **({"budget": 12} | change))
    assert board(connection, "method = 'oracle-joint' AND setting <> 'not measured'") == []


def test_the_nearest_length_answers(connection: duckdb.DuckDBPyConnection) -> None:
    for length, nfe in ((96, 30.0), (128, 40.0), (300, 80.0)):
        decoded(connection, "oracle-token", nfe, 1.0, task="tiny-code", generation_length=length)
    (row,) = board(connection, """method = 'oracle-token' AND target = 'sdar-8b' AND task = 'humaneval' AND budget = 8
        AND quantity = 'nfe' AND block_length = 32""")
    assert (row["ours"], row["ours_generation_length"], row["n_cells"]) == (80.0, 300, 1)


def test_a_range_over_tasks_is_answered_by_a_range(connection: duckdb.DuckDBPyConnection) -> None:
    """Cuts of 2 and 4 times; against Spiffy 10 of 20 forwards are 50 % fewer, 20 of 25 are 20 % fewer."""
    for task, control, spot, spiffy in (("tiny-code", 20.0, 10.0, 20.0), ("tiny-math", 80.0, 20.0, 25.0)):
        decoded(connection, "control", control, 4.0, task=task)
        for padded, nfe in ((True, spot), (False, 3.0)):
            decoded(connection, "spot", nfe, 2.0, task=task, padded=padded)
        decoded(connection, "spiffy", spiffy, 2.5, task=task, padded=True)
    where = "item = 'Table 2' AND method = 'spot' AND temperature = 0 AND ours IS NOT NULL"
    found = {r["quantity"]: r for r in board(connection, where)}
    cut = found["nfe_reduction"]
    assert (cut["published_low"], cut["published_high"], cut["published"]) == (3.2, 4.7, None)
    assert (cut["ours_low"], cut["ours"], cut["ours_high"], cut["n_cells"]) == (2, 3, 4, 2)
    percent = found["nfe_percent"]
    assert (percent["against"], percent["ours_low"], percent["ours_high"]) == ("spiffy", -50, pytest.approx(-20))
    assert found["ratio_over"]["ours"] == 1.25


def test_oracle_shares(connection: duckdb.DuckDBPyConnection) -> None:
    """Of 100 forwards spot saves 60 and the position oracle 80; ratios 2 against 4 and, at D12, 5."""
    decoded(connection, "control", 100, 4.0, task="tiny-math")
    decoded(connection, "spot", 40, 2.0, task="tiny-math")
    decoded(connection, "oracle-position", 20, 1.0, task="tiny-math")
    for budget, wall in ((8, 1.0), (12, 0.8)):
        decoded(connection, "oracle-joint", 15, wall, task="tiny-math", budget=budget)
    found = rows(connection, "SELECT quantity, value FROM measured_quantities WHERE quantity LIKE '%_share'")
    assert {(r["quantity"], r["value"]) for r in found} == {("position_cut_share", 0.75), ("joint_ratio_share", 0.4)}


def test_a_snapshot_has_the_published_figures_and_an_older_home_gets_the_new_ones(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        everything = store.query("SELECT count(*) AS n FROM published")["n"][0].as_py()
        store._connection.execute("DELETE FROM published")
        store._connection.execute("UPDATE view_state SET digest = 'older'")
    with Store(tmp_path) as store:
        store.publish()
    with connect(tmp_path) as reader:
        assert reader.sql("SELECT count(*) FROM published").fetchall() == [(everything,)]
        assert reader.sql("SELECT count(*) FROM scoreboard").fetchall() == [(everything,)]
