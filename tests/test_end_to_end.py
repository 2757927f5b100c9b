"""The whole pipeline on Ray with the embedded target: killed, resumed, with one worker and two, failing, timed badly."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import ray
import workers_for_tests
from rich.console import Console

import pipeline
import warehouse
from pipeline.driver import Submission
from pipeline.spec import parse_spec
from pipeline.status import read_status, stored_submission

ROOT = Path(__file__).parent.parent
PATIENCE_S = 900  # a shared machine may be slow; nothing here depends on the time it takes

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)

SPEC = """\
target: tiny-sdar
task: tiny-math
drafter: [none, spot, chain]
budget: 4
seed: [0, 1, 2]
samples: 2
generation_length: 32
stages:
  collect: {prompts: 4, shard_prompts: 4, batch: 4, generation_length: 32}
  train: {layers: 1, width: 32, heads: 4, epochs: 1, held_out: 0.25}
execution: {actors: 2}
"""


def start(home: Path, *arguments: str) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "pipeline",
        "submit",
        "specs/smoke.yaml",
        "--home",
        str(home),
        "--no-dashboard",
        *arguments,
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen) -> str:
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in output, output
    return output


def rows(home: Path, sql: str) -> list[tuple]:
    with warehouse.connect(home) as connection:
        return connection.execute(sql).fetchall()


def wait_for_runs(home: Path, count: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(list(home.glob("records/*.parquet"))) < count:
        assert process.poll() is None, process.stdout and process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def stage_workers(process: subprocess.Popen) -> list[psutil.Process]:
    """Ray's worker processes of a driver that are evaluating."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [
        child for child in children if child.is_running() and any("ray::evaluate" in part for part in child.cmdline())
    ]


@dataclass(frozen=True)
class History:
    """What was seen on the way of one experiment that met every kind of violence."""

    home: Path
    after_kill: tuple
    after_interrupt: tuple
    interrupt_code: int
    final_code: int
    final_output: str


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> History:
    """specs/smoke.yaml on two workers: driver killed, resumed, a worker killed, interrupted, resumed to the end."""
    home = tmp_path_factory.mktemp("smoke")

    process = start(home)
    wait_for_runs(home, 2, process)
    assert rows(home, "SELECT count(*) FROM nodes") == [(29,)]  # readable while the submit runs
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    psutil.wait_procs(family, timeout=60)
    recorded = next(home.glob("records/*-0.parquet"))  # as if the kill had come right after its record
    (home / "journal" / f"{recorded.stem}.jsonl").touch()
    [killed] = read_status(home)

    process = start(home)
    wait_for_runs(home, 5, process)
    while not (victims := stage_workers(process)):
        time.sleep(0.05)
    victims[0].kill()
    wait_for_runs(home, 10, process)
    process.send_signal(signal.SIGINT)
    finish(process)
    [interrupted] = read_status(home)
    interrupt_code = process.returncode

    process = start(home)
    output = finish(process)
    return History(
        home,
        (killed.live, killed.counts),
        (interrupted.live, interrupted.counts),
        interrupt_code,
        process.returncode,
        output,
    )


def test_it_survives_and_ends_complete(smoke: History) -> None:
    live, counts = smoke.after_kill
    assert not live
    assert "running" not in counts, "a dead driver must not leave running nodes"
    live, counts = smoke.after_interrupt
    assert not live
    assert smoke.interrupt_code == 130
    assert counts.keys() <= {"done", "cancelled"}
    assert smoke.final_code == 0, smoke.final_output
    assert rows(smoke.home, "SELECT DISTINCT state FROM nodes") == [("done",)]
    assert rows(smoke.home, "SELECT count(*), count(DISTINCT identity) FROM runs WHERE status = 'ok'") == [(24, 24)]
    assert rows(smoke.home, "SELECT DISTINCT n FROM (SELECT count(*) AS n FROM samples GROUP BY run_id)") == [(2,)]
    assert rows(smoke.home, "SELECT count(*) > 0 FROM events WHERE kind = 'worker' AND level = 'warning'") == [(True,)]
    assert not list(smoke.home.glob("journal/*")) and not list(smoke.home.glob("artifacts/.tmp*"))


def test_exact_methods_match_their_control_and_every_run_has_one(smoke: History) -> None:
    assert rows(smoke.home, "SELECT * FROM audit") == []
    assert rows(smoke.home, "SELECT * FROM unpaired") == []
    sql = "SELECT count(*) FROM paired WHERE distribution_preserving AND tokens_match = 1 AND drafter <> 'none'"
    assert rows(smoke.home, sql) == [(20,)]
    assert rows(smoke.home, "SELECT max(segments) FROM runs WHERE drafter = 'none'") == [(1,)]


def test_summary_and_report_are_there(smoke: History) -> None:
    assert "| control" in smoke.final_output
    assert (smoke.home / "reports" / "smoke.html").stat().st_size > 10_000


def test_a_second_submit_does_nothing_and_starts_nothing(smoke: History) -> None:
    before = {path: path.stat().st_mtime_ns for path in smoke.home.rglob("*") if path.is_file()}
    code = (
        "import sys\nfrom pipeline.cli import main\n"
        "try:\n    main(['submit', 'specs/smoke.yaml', '--home', sys.argv[1]])\n"
        "except SystemExit as end:\n    assert end.code == 0, end.code\n"
        "assert not {'ray', 'torch', 'transformers', 'matplotlib'} & sys.modules.keys()\n"
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run([sys.executable, "-c", code, str(smoke.home)], cwd=ROOT, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert output.returncode == 0, output.stderr
    assert "nothing to run" in output.stdout and "| control" in output.stdout
    # Processor time, since the wall time of a busy machine says nothing: well under the three seconds promised.
    assert after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime < 3
    assert before == {path: path.stat().st_mtime_ns for path in smoke.home.rglob("*") if path.is_file()}


def test_one_undisturbed_worker_gives_the_same_results(smoke: History, tmp_path: Path) -> None:
    settings = ["drafter=[none, spot-gamma, spiffy]", "task=tiny-code", "temperature=1", "execution.actors=1"]
    process = start(tmp_path, *(part for setting in settings for part in ("--set", setting)))
    output = finish(process)
    assert process.returncode == 0, output
    sql = """SELECT identity, sample_id, tokens, s.nfe, correct FROM samples AS s JOIN runs USING (run_id)
        WHERE status = 'ok'"""
    alone = rows(tmp_path, sql)
    assert len(alone) == 6
    together = {row[:2]: row for row in rows(smoke.home, sql)}
    assert all(together[row[:2]] == row for row in alone)
    artifacts = "SELECT identity, sha256 FROM artifacts JOIN nodes USING (identity) WHERE artifacts.kind = 'train'"
    assert rows(tmp_path, artifacts) == rows(smoke.home, artifacts)


@pytest.fixture(scope="module")
def own_ray() -> Iterator[None]:
    """Ray in this process, for the tests that bring their own workers."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    options = {"include_dashboard": False, "log_to_driver": False, "object_store_memory": 200_000_000}
    ray.init(num_cpus=2, runtime_env={"env_vars": paths}, **options)
    yield
    ray.shutdown()


def run(home: Path, *overrides: str, text: str = SPEC, **options: object) -> tuple[Submission, str]:
    with open(os.devnull, "w") as nowhere:
        console = Console(file=nowhere, record=True, width=200)
        result = pipeline.submit(parse_spec(text, "tiny", overrides=overrides), home=home, console=console, **options)
        return result, console.export_text()


def test_a_control_timed_badly_is_measured_again_and_archived(own_ray: None, tmp_path: Path) -> None:
    only_controls = SPEC.replace("budget: 4\n", "")
    rules = ("drafter=none", "outliers.z=1", "outliers.margin=0.5")
    result, text = run(tmp_path, *rules, text=only_controls, worker_class=workers_for_tests.SlowWorker)
    assert result.exit_code == 0, text
    assert "off the median of 3 siblings" in text
    # On a busy machine more than the one control that was slowed down may be off.
    sql = "SELECT reason, successor FROM outliers WHERE seed = 1 AND attempt = 0"
    [(reason, successor)] = rows(tmp_path, sql)
    assert reason.startswith("outlier")
    assert rows(tmp_path, f"SELECT seed, attempt FROM runs WHERE run_id = '{successor}'") == [(1, 1)]
    controls = rows(tmp_path, "SELECT seed, attempt FROM controls ORDER BY seed")
    assert [seed for seed, _ in controls] == [0, 1, 2]
    assert controls[1][1] >= 1
    assert "nothing to run" in run(tmp_path, *rules, text=only_controls)[1]

    # Controls that were timed long ago are timed again beside the methods of their key.
    result, text = run(tmp_path, "drafter=[none, chain]", "control.retime_after_s=0.001", "outliers.max_reruns=0")
    assert result.exit_code == 0, text
    assert rows(tmp_path, "SELECT seed FROM drift ORDER BY seed") == [(0,), (1,), (2,)]
    assert rows(tmp_path, "SELECT count(*), min(throughput_ratio) > 0 FROM paired WHERE method = 'chain'") == [
        (3, True)
    ]
    assert rows(tmp_path, "SELECT * FROM audit") == []


def test_siblings_go_on_after_a_failure_and_retry_mends_it(own_ray: None, tmp_path: Path) -> None:
    result, text = run(tmp_path, "seed=0", worker_class=workers_for_tests.FaultyWorker)
    assert result.exit_code == 1, text
    assert "FAILED train/tiny-sdar: ValueError: no luck at all" in text
    states = dict(rows(tmp_path, "SELECT label, state FROM nodes WHERE kind IN ('train', 'evaluate')"))
    assert states == {
        "train/tiny-sdar": "failed",
        "evaluate/tiny-math/control/T0/s0": "done",
        "evaluate/tiny-math/spot/D4/T0/s0": "blocked",
        "evaluate/tiny-math/chain/D4/T0/s0": "done",
    }
    log = next(path for path in tmp_path.glob("logs/*.log") if "no luck" in path.read_text())
    assert "Traceback" in log.read_text()

    result, text = run(tmp_path, "seed=0")
    assert result.exit_code == 0, text
    assert rows(tmp_path, "SELECT DISTINCT state FROM nodes") == [("done",)]
    attempts = dict(rows(tmp_path, "SELECT kind, max(attempts) FROM nodes GROUP BY kind"))
    assert attempts == {"collect": 1, "train": 2, "evaluate": 1}


def test_a_training_goes_on_from_its_checkpoint_after_its_worker_died(own_ray: None, tmp_path: Path) -> None:
    settings = ("drafter=none", "seed=0", "pretrain=true")
    only_controls = SPEC.replace("budget: 4\n", "")
    result, text = run(tmp_path, *settings, text=only_controls, worker_class=workers_for_tests.DyingPretrainer)
    assert result.exit_code == 1
    assert "lost   pretrain/tiny-sdar" in text
    assert "FAILED pretrain/tiny-sdar: ValueError: would go on from half way" in text


def test_a_suite_runs_shared_nodes_once_and_is_retried_from_the_warehouse(own_ray: None, tmp_path: Path) -> None:
    members = {"wide": "drafter: [none, chain]", "deep": "drafter: [chain, tree]"}
    for name, grid in members.items():
        (tmp_path / f"{name}.yaml").write_text(
            f"target: tiny-sdar\ntask: tiny-math\n{grid}\nbudget: 4\nsamples: 1\ngeneration_length: 32\n"
        )
    text = f"name: both\ninclude: [{tmp_path}/wide.yaml, {tmp_path}/deep.yaml]\n"
    result, shown = run(tmp_path / "home", text=text)
    assert result.exit_code == 0, shown
    assert rows(tmp_path / "home", "SELECT label, state FROM nodes ORDER BY label") == [
        ("deep/evaluate/tiny-math/tree/D4/T0/s0", "done"),
        ("wide/evaluate/tiny-math/chain/D4/T0/s0", "done"),
        ("wide/evaluate/tiny-math/control/T0/s0", "done"),
    ]
    sql = "SELECT method FROM paired WHERE experiment = 'both' ORDER BY method"
    assert rows(tmp_path / "home", sql) == [("chain",), ("control",), ("tree",)]

    for name in members:
        (tmp_path / f"{name}.yaml").unlink()
    spec, limit = stored_submission(tmp_path / "home", "both")
    with open(os.devnull, "w") as nowhere:
        again = pipeline.submit(spec, home=tmp_path / "home", limit=limit, console=Console(file=nowhere))
    assert (again.exit_code, again.counts) == (0, {"done": 3})


def test_limited_runs_are_marked_and_kept_out_of_the_tables(own_ray: None, tmp_path: Path) -> None:
    result, text = run(tmp_path, "drafter=[none, chain]", "seed=0", limit=1)
    assert result.exit_code == 0, text
    assert rows(tmp_path, "SELECT DISTINCT limited, n_samples FROM runs") == [(True, 1)]
    assert rows(tmp_path, "SELECT * FROM main_table") == []


def test_a_method_that_differs_from_its_control_is_a_failure_now_and_later(own_ray: None, tmp_path: Path) -> None:
    settings = ("drafter=[none, chain]", "seed=0", "samples=1")
    result, text = run(tmp_path, *settings, worker_class=workers_for_tests.LyingWorker)
    assert result.exit_code == 1
    assert "evaluate/tiny-math/chain/D4/T0/s0 differs from its control in 1 samples" in text
    assert rows(tmp_path, "SELECT method, tokens_match, failure FROM audit") == [("chain", 0.0, True)]
    assert rows(tmp_path, "SELECT level FROM events WHERE kind = 'exactness'") == [("error",)]
    result, text = run(tmp_path, *settings)
    assert "nothing to run" in text
    assert result.exit_code == 1
