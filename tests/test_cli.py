"""The command line: every mistake is one clear line and exit code 2, and nothing is lost or started."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from pipeline.cli import main
from pipeline.control_files import Beat, read_beat, this_process, write_beat
from pipeline.recorder import Recorder
from warehouse import Store
from workers.errors import UserError

ROOT = Path(__file__).parent.parent
SOUND = """\
name: tiny
target: tiny-sdar
task: tiny-math
drafter: [none, chain]
budget: 4
samples: 2
generation_length: 32
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(SOUND)
    return path


def refused(result: Result) -> list[str]:
    """The lines of a refusal, after checking that it is one."""
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result.stderr.strip().splitlines()


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ("seeds: 1\n", ":8", "did you mean 'seed'"),
        ("samples: 3\n", ":8", "duplicate key"),
        ("temperature: warm\n", ":8", "temperature"),
        ("verifier: copuled\n", ":8", "did you mean 'coupled'"),
    ],
)
def test_mistakes_in_a_spec_have_file_line_and_fix(spec: Path, change: str, place: str, words: str) -> None:
    spec.write_text(SOUND + change)
    for command in ("validate", "plan", "submit"):
        lines = refused(call(command, spec))
        assert len(lines) == 1
        assert f"{spec}{place}" in lines[0]
        assert words in lines[0]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("budget=0", "greater than 0"),
        ("drafter=spto", "did you mean 'spot'"),
        ("target={checkpoint: /nowhere, name: x}", "/nowhere"),
        ("task=gsm9k", "unknown task"),
        ("generation_length=100000", "positions"),
        ("samples", "key.sub=value"),
    ],
)
def test_bad_overrides_are_refused_by_name(spec: Path, tmp_path: Path, override: str, words: str) -> None:
    home = tmp_path / "home"
    lines = refused(call("submit", spec, "--set", override, "--home", home))
    assert len(lines) == 1
    assert "--set" in lines[0]
    assert words in lines[0]
    assert not home.exists()


def test_a_missing_file_and_bad_usage_are_refused(tmp_path: Path, spec: Path) -> None:
    assert "no such spec file" in refused(call("submit", tmp_path / "absent.yaml"))[0]
    assert "No such command" in refused(call("submti"))[-1]
    assert "No such option" in refused(call("submit", spec, "--fast"))[-1]
    assert "not in the range" in refused(call("submit", spec, "--limit", 0))[-1]


def test_without_arguments_help_is_shown() -> None:
    result = call()
    assert result.exit_code == 0
    for command in (
        "validate",
        "plan",
        "submit",
        "status",
        "logs",
        "cancel",
        "retry",
        "sql",
        "report",
        "export",
        "doctor",
    ):
        assert f"\n  {command} " in result.output


def test_a_home_that_cannot_be_written_is_refused(spec: Path, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    for home in (occupied / "home", Path("/proc/home")):
        [line] = refused(call("submit", spec, "--home", home))
        assert "cannot write to" in line or "name another home" in line


def test_a_locked_warehouse_names_its_writer_and_stays_unharmed(spec: Path, tmp_path: Path) -> None:
    code = "import sys, time, warehouse; s = warehouse.Store(sys.argv[1]); print('open', flush=True); time.sleep(60)"
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert writer.stdout is not None and writer.stdout.readline() == "open\n"
        [line] = refused(call("submit", spec, "--home", tmp_path))
        assert f"process {writer.pid}" in line
    finally:
        writer.kill()
        writer.wait()


def test_plan_gives_identity_and_reason_and_changes_nothing(spec: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for command in (("plan",), ("submit", "--dry-run")):
        result = call(*command, spec, "--home", home)
        assert result.exit_code == 0
        assert "evaluate/tiny-math/control/T0/s0" in result.output
        assert "2 of 2 nodes would run" in result.output
    rows = json.loads(call("plan", spec, "--home", home, "--format", "json").output)
    assert {row["action"] for row in rows} == {"run"}
    assert {len(row["identity"]) for row in rows} == {64}
    assert not home.exists()


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A home with one experiment of three nodes: done, failed, and left as running by a driver that is dead."""
    home = tmp_path / "home"
    with Store(home) as store:
        store.add_experiment("exp", SOUND, "x", "submit", {}, None)
        rows = [{"identity": f"{digit}" * 64, "kind": "evaluate", "label": f"evaluate/n{digit}"} for digit in "abc"]
        store.plan_nodes("exp", rows)
        store.node_state("exp", "a" * 64, "done")
        store.node_state("exp", "b" * 64, "failed", message="ValueError: no luck")
        store.node_state("exp", "c" * 64, "running", actor="worker-0")
        store.publish()
    (home / "logs").mkdir()
    (home / "logs" / f"{'b' * 16}.log").write_text("Traceback (most recent call last):\nValueError: no luck\n")
    return home


def test_sql_speaks_three_formats_and_reports_errors_in_one_line(published: Path, tmp_path: Path) -> None:
    query = "select label, null as nothing, [1, 2] as pair, 'nan'::double as wrong from nodes order by label limit 1"
    assert (
        call("sql", query, "--home", published, "--format", "csv").output.splitlines()[1] == 'evaluate/na,,"[1, 2]",nan'
    )
    rows = json.loads(call("sql", query, "--home", published, "--format", "json").output)
    assert rows == [{"label": "evaluate/na", "nothing": None, "pair": [1, 2], "wrong": None}]
    assert call("sql", "select 1.5 as x, 'y' as name", "--home", published).output.split() == [
        "x",
        "name",
        "---",
        "----",
        "1.5",
        "y",
    ]

    file = tmp_path / "query.sql"
    file.write_text("select count(*) as n from nodes;\n")
    for given in (["--file", file], []):
        result = CliRunner().invoke(
            main, ["sql", "--home", str(published), "--format", "csv", *map(str, given)], input=file.read_text()
        )
        assert result.output == "n\n3\n"

    assert "selct" in refused(call("sql", "selct 1", "--home", published))[0]
    assert len(refused(call("sql", "select * from nowhere", "--home", published))) == 1
    assert "read-only" in refused(call("sql", "delete from experiments", "--home", published))[0]
    assert "empty" in refused(call("sql", "--home", published))[0]
    assert "no results" in refused(call("sql", "select 1", "--home", tmp_path / "absent"))[0]
    assert "main_table" in call("sql", "--tables", "--home", published).output


def test_status_tells_dead_drivers_from_live_ones(published: Path) -> None:
    text = call("status", "--home", published).output
    assert "1 interrupted" in text and "running" not in text.replace("interrupted", "")
    assert "no luck" in text
    assert call("status", "--home", published, "--exit-code").exit_code == 1

    running = [
        {
            "worker": "worker-0",
            "label": "evaluate/nc",
            "seconds": 3.0,
            "done": 1,
            "total": 4,
            "figures": {"tok_s": 12.0},
        }
    ]
    beat = Beat(experiment="exp", **this_process(), started_at=0.0, beat_at=time.time(), running=running)
    write_beat(published, beat)
    text = call("status", "exp", "--home", published).output
    assert "1 running" in text and "1/4, 12 tok/s" in text

    write_beat(published, Beat(**{**beat.__dict__, "pid_started": 1.0}))  # the process id was given to another process
    assert json.loads(call("status", "--home", published, "--format", "json").output)[0]["live"] is False
    elsewhere = {**beat.__dict__, "host": "elsewhere", "beat_at": time.time() - 3600}
    assert elsewhere["host"] != socket.gethostname()
    write_beat(published, Beat(**elsewhere))
    assert "interrupted" in call("status", "--home", published).output
    assert "holds: exp" in refused(call("status", "expp", "--home", published))[0]


def test_a_damaged_heartbeat_is_that_of_no_driver(published: Path) -> None:
    for content in (b"\xff\xfe", b"{", b"[]", b"7"):
        (published / "driver.json").write_bytes(content)
        assert call("status", "--home", published).exit_code == 0


def test_a_submit_is_known_to_be_alive_before_its_plan_can_be_read(spec: Path, tmp_path: Path, monkeypatch) -> None:
    seen = []

    def begin(recorder, *arguments) -> None:
        seen.append(read_beat(recorder.home))
        raise UserError("far enough")

    monkeypatch.setattr(Recorder, "begin", begin)
    assert refused(call("submit", spec, "--home", tmp_path / "home")) == ["error: far enough"]
    assert seen[0].alive and (seen[0].experiment, seen[0].state) == ("tiny", "starting")


def test_logs_show_the_failing_trace(published: Path) -> None:
    for arguments in (["--failed"], ["evaluate/nb"], ["b" * 8], [f"{'b' * 16}-0"]):
        result = call("logs", *arguments, "--home", published)
        assert result.exit_code == 0
        assert "ValueError: no luck" in result.output
    assert "no node 'evaluate/nz'" in refused(call("logs", "evaluate/nz", "--home", published))[0]
    refused(call("logs", "--home", published))


def test_commands_on_an_empty_home_say_so(tmp_path: Path) -> None:
    assert call("status", "--home", tmp_path).exit_code == 0
    for command in ("retry", "report", "cancel"):
        assert len(refused(call(command, "--home", tmp_path))) == 1
    refused(call("export", tmp_path / "out", "--home", tmp_path))


def test_export_writes_every_view(published: Path, tmp_path: Path) -> None:
    assert call("export", tmp_path / "out", "--home", published, "--format", "csv").exit_code == 0
    assert (tmp_path / "out" / "nodes.csv").read_text().count("evaluate/") == 3


def test_doctor_finds_this_machine_sound_and_a_bad_home_not(tmp_path: Path) -> None:
    result = call("doctor", "--no-ray", "--home", tmp_path / "home")
    assert "ok    tiny-sdar" in result.output
    occupied = tmp_path / "file"
    occupied.write_text("")
    result = call("doctor", "--no-ray", "--home", occupied)
    assert result.exit_code == 1
    assert "FAIL  home" in result.output


def test_light_commands_import_no_heavy_package() -> None:
    code = (
        "import sys, pipeline.cli, pipeline.driver, pipeline.status, pipeline.query, pipeline.detach;"
        "print([name for name in ('torch', 'ray', 'transformers', 'datasets', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_an_artifact_counts_only_if_its_files_agree_with_the_manifest(tmp_path: Path) -> None:
    from pipeline.standing import read_manifest, set_aside_damaged
    from workers.actor import write_manifest

    for name in ("good", "changed", "short"):
        directory = tmp_path / "artifacts" / name
        directory.mkdir(parents=True)
        (directory / "model").write_bytes(b"abcd")
        write_manifest(directory, "train", "train/x", {"figure": 1})
    (tmp_path / "artifacts" / "changed" / "model").write_bytes(b"abcX")
    (tmp_path / "artifacts" / "short" / "model").write_bytes(b"ab")
    assert read_manifest(tmp_path / "artifacts" / "short") is None
    moved = set_aside_damaged(tmp_path, ["good", "changed", "short", "absent"])
    assert moved.keys() == {"changed", "short"}
    assert all((kept / "model").exists() for kept in moved.values())


def test_render_keeps_wide_values_apart() -> None:
    from pipeline.tables import render

    table = pa.table({"a": ["x", "yyyy"], "n": [1.0, 123456.789]})
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert render(table.column_names, rows, "table").splitlines() == [
        "a          n",
        "----  ------",
        "x          1",
        "yyyy  123457",
    ]
