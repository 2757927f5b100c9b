"""The writer: durable, idempotent, alone, and whole again after any crash."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from warehouse_for_tests import contents, damaged, fill, make_rounds, make_run, make_samples

import warehouse
from warehouse import Store, WarehouseError

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A closed home and what it holds; copy it before changing it."""
    home = tmp_path_factory.mktemp("filled") / "home"
    with Store(home) as store:
        fill(store)
        return home, contents(store)


@pytest.fixture
def home(filled: tuple[Path, dict[str, list[str]]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled[0], tmp_path / "home"))


def in_process(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start Python with the test helpers importable; the caller waits for it."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed_writer(home: Path, work: str) -> None:
    """Run `work` with an open `store` in another process and kill it with SIGKILL, its log unchecked."""
    process = in_process(
        f"""
        import os, signal, sys
        from warehouse import Store
        from warehouse_for_tests import *
        store = Store(sys.argv[1])
        store._connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        store._checkpoint = lambda: None
        {work}
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        home,
    )
    _, errors = process.communicate(timeout=200)
    assert process.returncode == -signal.SIGKILL, errors


def events(store: Store, kind: str) -> list[str]:
    return store.query("SELECT message FROM events WHERE kind = ? ORDER BY seq", [kind])["message"].to_pylist()


def test_add_run_is_idempotent(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        assert store.add_run(make_run(), make_samples(), make_rounds({"tiny-math/test/0": [1]}))
        assert not store.add_run(make_run(nfe=99), make_samples(nfe=(99.0,), wall=(1.0,)), None)
        counts = store.query(
            """SELECT (SELECT count(*) FROM runs) AS r, (SELECT count(*) FROM samples) AS s,
                (SELECT count(*) FROM rounds) AS o"""
        )
        assert counts.to_pylist() == [{"r": 1, "s": 2, "o": 2}]
        assert store.query("SELECT nfe FROM runs")["nfe"].to_pylist() == [15.0]


def test_rebuild_loses_nothing(home: Path, filled: tuple[Path, dict[str, list[str]]]) -> None:
    counts = warehouse.rebuild(home)
    assert counts["run_records"] == 8
    assert list(home.glob("warehouse.duckdb.bad-*"))  # kept, not deleted
    with Store(home) as store:
        assert contents(store) == filled[1]


def test_columns_unknown_to_the_database_survive_in_the_record(tmp_path: Path) -> None:
    from warehouse.records import read_record

    with Store(tmp_path) as store:
        store.add_run(make_run(odd_figure=3), make_samples(temperature_used=[0.5, float("nan")]), None)
        run_id = make_run()["run_id"]
        assert json.loads(store.query("SELECT extra FROM runs")["extra"][0].as_py()) == {"odd_figure": 3}
        assert read_record(store.home.record(run_id)).samples["temperature_used"].to_pylist() == [0.5, None]


def test_nan_and_infinity_become_null(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_run(
            make_run(accuracy=float("nan"), warmup_s=float("inf")), make_samples(draft_s=[float("nan"), 1.0]), None
        )
        assert store.query("SELECT accuracy, warmup_s FROM runs").to_pylist() == [{"accuracy": None, "warmup_s": None}]
        assert store.query("SELECT draft_s FROM samples ORDER BY sample_id")["draft_s"].to_pylist() == [None, 1.0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"target": None}, "missing target"),
        ({"budget": 8.5}, "budget = 8.5"),
        ({"seed": "zero"}, "seed = 'zero'"),
        ({"status": "archived"}, "status 'archived'"),
        ({"started_at": "yesterday"}, "started_at = 'yesterday'"),
    ],
)
def test_a_bad_run_is_refused_and_leaves_nothing(tmp_path: Path, change: dict, problem: str) -> None:
    with Store(tmp_path) as store:
        with pytest.raises(WarehouseError, match=problem):
            store.add_run(make_run() | change, make_samples(), None)
        with pytest.raises(WarehouseError, match="sample_id"):
            store.add_run(make_run(), pa.table({"nfe": [1.0]}), None)
        assert store.query("SELECT * FROM runs").num_rows == 0
        assert not list(store.home.records.glob("*.parquet"))


def test_readers_see_the_published_state_while_the_writer_is_open(tmp_path: Path) -> None:
    count = "SELECT count(*) FROM runs"
    with Store(tmp_path) as store:
        with pytest.raises(WarehouseError, match="no results"):
            warehouse.connect(tmp_path)
        store.add_run(make_run(), make_samples(), None)
        store.publish()
        first = warehouse.connect(tmp_path)
        store.add_run(make_run(seed=1), make_samples(), None)
        assert first.execute(count).fetchone() == (1,)
        store.publish()
        second = warehouse.connect(tmp_path)  # the first one, still open, must not decide what this one sees
        assert (first.execute(count).fetchone(), second.execute(count).fetchone()) == ((1,), (2,))
        with pytest.raises(duckdb.Error):
            second.execute("INSERT INTO archives VALUES (1, NULL, 'x', 'y', NULL)")
        code = (
            "import sys, warehouse; c = warehouse.connect(sys.argv[1]); print(len(c.execute('FROM paired').fetchall()))"
        )
        output, errors = in_process(code, tmp_path).communicate(timeout=200)
        assert output.strip() == "2", errors
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "records",
        "snapshot.duckdb",
        "warehouse.duckdb",
        "writer.lock",
    ]


def test_one_writer_at_a_time(home: Path) -> None:
    code = "import sys, warehouse; s = warehouse.Store(sys.argv[1]); s.publish(); print('open', flush=True); input()"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(home)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(WarehouseError, match=rf"is being written by process {other.pid} on \S+ since 20"):
            Store(home)
        assert warehouse.writer(home)["pid"] == other.pid
        with pytest.raises(duckdb.IOException):  # publishing must not have dropped DuckDB's own lock
            duckdb.connect(str(home / "warehouse.duckdb"))
        other.kill()
        other.wait(timeout=30)
        assert warehouse.writer(home) is None
        with Store(home) as store:  # the dead process's lock is taken over
            assert f"{other.pid}" in events(store, "lock")[0]
    finally:
        other.kill()
        other.communicate(timeout=30)
    assert warehouse.writer(home) is None


def test_a_lock_of_another_host_is_respected(home: Path) -> None:
    (home / "writer.lock").write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "2026-01-01T00:00:00"}))
    with pytest.raises(WarehouseError, match="locked by process 1 on elsewhere .* remove"):
        Store(home)


def test_the_file_being_open_elsewhere_is_said(home: Path) -> None:
    code = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(home / "warehouse.duckdb")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(WarehouseError, match="open in another process"):
            Store(home)
    finally:
        other.communicate(timeout=30)
    assert not list(home.glob("*.bad-*"))
    Store(home).close()


def test_an_unwritable_home_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WarehouseError, match="cannot write to .*file.*another home"):
        Store(tmp_path / "file" / "home")
    with pytest.raises(WarehouseError, match="nothing to rebuild from"):
        warehouse.rebuild(tmp_path / "none")


def test_kill_in_mid_transaction_keeps_what_was_recorded(home: Path) -> None:
    killed_writer(
        home,
        """store.add_run(make_run(seed=7), make_samples(), None)
        store.node_state("main", "train", "running")
        store._connection.execute("BEGIN")
        store._connection.execute("INSERT INTO samples (run_id, sample_id) VALUES ('half', 'done')")""",
    )
    with Store(home) as store:
        assert store.query("SELECT count(*) AS n FROM samples WHERE run_id = 'half'")["n"].to_pylist() == [0]
        assert store.query("SELECT status FROM runs WHERE seed = 7")["status"].to_pylist() == ["ok"]
        state = store.query("SELECT state, message FROM nodes WHERE identity = 'train'").to_pylist()
        assert state == [{"state": "planned", "message": "interrupted: its driver ended"}]
        assert not store.findings.restored
    assert not list(home.glob("*.bad-*"))


def test_a_run_whose_record_was_written_before_the_crash_is_not_lost(home: Path) -> None:
    killed_writer(
        home,
        """import warehouse.store
        warehouse.store.insert_record = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        store.add_run(make_run(seed=7), make_samples(), None)""",
    )
    with Store(home) as store:
        assert store.query("SELECT nfe FROM runs WHERE seed = 7")["nfe"].to_pylist() == [15.0]
        assert not store.add_run(make_run(seed=7), make_samples(), None)


ADD_TEN = """for seed in range(10, 20):
            store.add_run(make_run(seed=seed), make_samples(), make_rounds({"tiny-math/test/0": [1, 2]}))
            store.archive_run(make_run(seed=seed)["run_id"], "test")"""


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_log_is_noticed_kept_and_repaired(home: Path, damage: str) -> None:
    killed_writer(home, ADD_TEN)
    wal = home / "warehouse.duckdb.wal"
    size = wal.stat().st_size
    if damage == "truncated":
        os.truncate(wal, size - 100)
    else:
        damaged(wal, size // 2)
    bad = wal.read_bytes()
    with Store(home) as store:
        assert store.query("SELECT count(*) AS n FROM runs WHERE seed >= 10 AND status = 'archived'")[
            "n"
        ].to_pylist() == [10]
        assert store.query("SELECT count(*) AS n FROM rounds JOIN runs USING (run_id) WHERE seed >= 10")[
            "n"
        ].to_pylist() == [30]
        assert store.findings.restored
        assert any("put back" in message for message in events(store, "reconcile"))
        assert any(".bad-" in message for message in events(store, "quarantine"))
    assert [path.read_bytes() for path in home.glob("warehouse.duckdb.wal.bad-*")] == [bad]
    with Store(home) as store:  # whole again: nothing left to repair
        assert not store.findings.messages(rebuilt=False)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_flipped_byte_in_the_database_does_no_harm(
    home: Path, filled: tuple[Path, dict[str, list[str]]], share: float
) -> None:
    database = home / "warehouse.duckdb"
    damaged(database, int(share * database.stat().st_size))
    with Store(home) as store:
        assert contents(store) == filled[1]


def test_a_garbage_database_is_set_aside_and_rebuilt(home: Path, filled: tuple[Path, dict[str, list[str]]]) -> None:
    (home / "warehouse.duckdb").write_bytes(b"not a database" * 1000)
    with Store(home) as store:
        assert contents(store) == filled[1]
        assert "unreadable warehouse kept as warehouse.duckdb.bad-" in events(store, "quarantine")[0]
    (kept,) = home.glob("warehouse.duckdb.bad-*")
    assert kept.read_bytes().startswith(b"not a database")


def test_rows_missing_from_the_database_are_put_back(home: Path, filled: tuple[Path, dict[str, list[str]]]) -> None:
    with duckdb.connect(str(home / "warehouse.duckdb")) as connection:
        connection.execute("DELETE FROM rounds WHERE drafted > 0")
        connection.execute("DELETE FROM run_records WHERE method = 'spiffy'")
        connection.execute("DELETE FROM archives")
    with Store(home) as store:
        assert contents(store) == filled[1]
        assert store.findings.restored == {"runs": 4, "rows of archives": 1}


def test_damaged_or_missing_records_are_written_again(home: Path, filled: tuple[Path, dict[str, list[str]]]) -> None:
    gone, broken, *_ = sorted((home / "records").glob("*.parquet"))
    gone.unlink()
    broken.write_bytes(b"PAR1 but not really")
    os.truncate(home / "records" / "node_states.jsonl", (home / "records" / "node_states.jsonl").stat().st_size - 5)
    (home / "records" / "archives.jsonl").unlink()
    with Store(home) as store:
        assert contents(store) == filled[1]
        assert (
            len(events(store, "reconcile")) == 6
        )  # bad and rewritten record, missing record, torn ledger twice, missing ledger
    warehouse.rebuild(home)
    with Store(home) as store:
        assert contents(store) == filled[1]


def test_a_broken_snapshot_is_said_and_replaced(home: Path) -> None:
    (home / "snapshot.duckdb").write_bytes(b"garbage" * 100)
    with pytest.raises(WarehouseError, match="cannot read .*snapshot"):
        warehouse.connect(home)
    with Store(home) as store:
        store.publish()
    assert warehouse.connect(home).execute("SELECT count(*) FROM runs").fetchone() == (8,)


def test_a_newer_schema_is_refused(home: Path) -> None:
    with duckdb.connect(str(home / "warehouse.duckdb")) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (999, 'future', NULL)")
    with pytest.raises(WarehouseError, match="schema version 999"):
        Store(home)
    assert not list(home.glob("*.bad-*"))


def test_archiving_twice_or_an_unknown_run(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_run(make_run(), make_samples(), None)
        for _ in range(2):
            store.archive_run(make_run()["run_id"], "outlier: slow")
        assert store.query("SELECT * FROM archives").num_rows == 1
        with pytest.raises(WarehouseError, match="no such run"):
            store.archive_run("nothing", "reason")


def test_a_plan_belongs_to_its_submit(tmp_path: Path) -> None:
    def plan(*identities: str) -> None:
        store.add_experiment("main", "", "", "", {}, None)
        nodes = [
            {"identity": identity, "kind": "train", "label": identity, "upstream": [], "params": {}}
            for identity in identities
        ]
        store.plan_nodes("main", nodes)
        store.plan_nodes("main", nodes)

    with Store(tmp_path) as store:
        plan("a", "b")
        store.node_state("main", "a", "done")
        plan("a", "c")
        nodes = store.query("SELECT identity, state FROM nodes").to_pylist()
        assert nodes == [{"identity": "a", "state": "done"}, {"identity": "c", "state": "planned"}]
        with pytest.raises(WarehouseError, match="state 'ready'"):
            store.node_state("main", "c", "ready")


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_export_writes_every_table_and_view(home: Path, tmp_path: Path, format: str) -> None:
    files = warehouse.export(home, tmp_path / "out", format)
    assert {path.stem for path in files} == {document.name for document in warehouse.tables()}
    with duckdb.connect() as connection:
        count = connection.execute(f"SELECT count(*) FROM '{tmp_path / 'out' / 'paired'}.{format}'").fetchone()
    assert count == (6,)
    with pytest.raises(WarehouseError, match="unknown export format"):
        warehouse.export(home, tmp_path, "xlsx")


def test_importing_the_warehouse_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'ray', 'transformers', 'datasets', 'matplotlib', 'pandas', 'scipy', 'workers', 'pipeline'}"
    output, errors = in_process(f"import sys, warehouse; print({heavy} & set(sys.modules))").communicate(timeout=200)
    assert output.strip() == "set()", errors
