"""The sandbox: outcomes, limits, and that nothing survives it."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path

import pytest
from workers.tasks.sandbox import run_python

ESCAPE = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        {inside}
    os._exit(0)
{outside}
"""


def processes_with(marker: str) -> list[str]:
    """Command lines and environments of live processes that mention the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


@pytest.mark.parametrize(
    "code, reason",
    [
        ("assert 1 == 2", "AssertionError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import os; os._exit(0)", "ended without finishing"),
        ("def f(:", "SyntaxError"),
        ("while True: pass", "timed out"),
        ("import time; time.sleep(60)", "timed out"),
        ("x = 'a' * (1 << 31)", "MemoryError"),
        ("open('big', 'w').write('a' * (1 << 23))", "File too large"),
        ("input()", "EOFError"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "PermissionError"),
        ("import os, signal; os.kill(os.getppid(), signal.SIGKILL); import time; time.sleep(60)", "ended from inside"),
        ("import numpy", "ModuleNotFoundError"),
        ("import workers", "ModuleNotFoundError"),
    ],
)
def test_failures_have_a_reason(code, reason):
    outcome = run_python(code, timeout_s=0.5)
    assert not outcome.ok and reason in outcome.reason


def test_success_is_fast_and_quiet(capfd):
    assert run_python("print('hello')\nimport sys; print('oops', file=sys.stderr)").ok
    began = time.perf_counter()
    assert all(run_python("assert sum([1, 2]) == 3").ok for _ in range(5))
    assert time.perf_counter() - began < 5 * 0.5  # about 50 ms each on an idle core
    assert capfd.readouterr() == ("", "")


def test_the_environment_is_scrubbed(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    code = """
        import os
        assert "SECRET_TOKEN" not in os.environ
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
        assert os.listdir(".") == []
        assert os.getsid(0) != {session}
    """
    assert run_python(textwrap.dedent(code).format(session=os.getsid(0))) == run_python("pass")


@pytest.mark.parametrize("outside", ["", "while True: pass", "os.kill(os.getppid(), 9)"])
def test_no_process_survives_not_even_in_another_session(outside):
    """The grandchild leaves its session twice and becomes a program of its own with a name we can look for."""
    marker = f"escaped-{os.getpid()}-{abs(hash(outside))}"
    inside = f"os.execve({os.sys.executable!r}, ['python', '-c', 'import time; time.sleep(60)', {marker!r}], dict(os.environ))"
    run_python(ESCAPE.format(inside=inside, outside=outside), timeout_s=0.5)
    assert processes_with(marker) == []


def test_a_missing_marker_does_not_help_to_survive():
    """Even with an empty environment the grandchild is found, by its ancestry."""
    marker = f"bare-{os.getpid()}"
    inside = f"os.execve({os.sys.executable!r}, ['python', '-c', 'import time; time.sleep(60)', {marker!r}], {{}})"
    run_python(ESCAPE.format(inside=inside, outside="time.sleep(0.2)"), timeout_s=1.0)
    assert processes_with(marker) == []


def test_the_directory_is_removed():
    outcome = run_python("import os; open('left', 'w').close(); raise ValueError(os.getcwd())")
    folder = outcome.reason.removeprefix("ValueError: ")
    assert "sandbox-" in folder and not Path(folder).exists()
