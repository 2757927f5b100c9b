"""The sandbox: outcomes, limits, and that nothing survives it."""

from __future__ import annotations

import os
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from workers.tasks import sandbox
from workers.tasks.sandbox import run_python

# The grandchild leaves its session twice and becomes a program with a name we can look for and no environment.
ESCAPE = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execve('/bin/sleep', [{marker!r}, '60'], {{}})
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
        ("def f(): f()\nf()", "RecursionError"),
        ("import os; os.abort()", "SIGABRT"),
        ("import threading; threading.Thread(target=print).start()", "can't start new thread"),
        ("import os; os.fork()", "Resource temporarily unavailable"),
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
    assert time.perf_counter() - began < 5 * 1.0  # about 60 ms each on an idle core
    assert capfd.readouterr() == ("", "")


def test_the_environment_is_scrubbed(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    code = """
        import os
        assert "SECRET_TOKEN" not in os.environ
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
        assert os.listdir(".") == []
    """
    assert run_python(textwrap.dedent(code)) == run_python("pass")


def test_it_has_a_session_of_its_own():
    """Seen from outside: in a process namespace of its own the code may not know its session's number."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_python, "import time; time.sleep(0.3)")
        sessions: set[int] = set()
        while not running.done():
            sessions |= {os.getsid(child.pid) for child in psutil.Process().children() if carries_marker(child)}
    assert running.result().ok
    assert sessions and os.getsid(0) not in sessions


def carries_marker(process: psutil.Process) -> bool:
    """Whether it is a sandbox's supervisor, past the moment at which it replaced its program."""
    try:
        return sandbox.MARKER in process.environ()
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    "code",
    [
        "print('ok')",
        "for f in range(3, 64):\n try: os.write(f, b'ok')\n except OSError: pass",
        "for f in range(3, 64):\n try: os.write(f, b' ok\\n')\n except OSError: pass",
        "if os.fork(): os._exit(0)",
        "if os.fork(): time.sleep(60)",
        "os.kill(os.getppid(), 9); time.sleep(60)",
        "os.kill(-1, 9); time.sleep(60)",
        "sys.exit = os._exit; sys.exit(0)",
        "threading.Thread(target=lambda: (time.sleep(0.05), os._exit(0))).start(); time.sleep(60)",
        "for s in range(1, 65):\n try: signal.signal(s, signal.SIG_IGN)\n except Exception: pass\nwhile True: pass",
        "while True:\n try: os.fork()\n except OSError: pass",
    ],
)
def test_no_trick_passes_for_success(code):
    """Fake markers, copies of the process, early exits, ignored signals, a fork bomb; then an assertion that fails."""
    imports = "import os, signal, sys, threading, time\n"
    assert not run_python(f"{imports}{code}\nassert False", timeout_s=0.3, processes=8).ok
    assert not run_python(f"{imports}{code}\nos._exit(0)", timeout_s=0.3, processes=8).ok


def test_files_stay_few_and_inside():
    fill = "for i in range(40):\n with open(f'file-{i}', 'w') as file: file.write('x' * (1 << 20))"
    outside = Path(__file__).with_name("written-by-the-sandbox")
    if not run_python("import os; assert os.listdir('/proc') == []").ok:
        pytest.skip("this kernel gives the sandbox no mount namespace")
    assert "No space left" in run_python(fill).reason
    assert "Read-only file system" in run_python(f"open({str(outside)!r}, 'w')").reason


@pytest.mark.parametrize(
    "outside", ["time.sleep(0.3)", "while True: pass", "time.sleep(0.3); os.kill(os.getppid(), 9)"]
)
def test_no_process_survives_not_even_in_another_session(outside):
    marker = f"escaped-{os.getpid()}-{len(outside)}"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_python, ESCAPE.format(marker=marker, outside=outside), timeout_s=0.5, processes=8)
        seen: list[str] = []
        while not running.done():
            seen = seen or processes_with(marker)
    assert seen
    assert processes_with(marker) == []


def test_without_namespaces_nothing_survives_either(monkeypatch, tmp_path):
    """The supervisor as it runs where the kernel refuses namespaces."""
    source = sandbox.SUPERVISOR.read_text()
    assert source.count("apart = isolate()") == 1
    (tmp_path / "child.py").write_text(source.replace("apart = isolate()", "apart = False"))
    monkeypatch.setattr(sandbox, "SUPERVISOR", tmp_path / "child.py")
    marker = f"bare-{os.getpid()}"
    for outside in ("time.sleep(0.2)", "os.kill(os.getppid(), 9)"):
        run_python(ESCAPE.format(marker=marker, outside=outside), timeout_s=0.5, processes=8)
        assert processes_with(marker) == []
    assert run_python("assert True").ok
    assert not run_python("import os; os.write(4, b'ok'); os._exit(0)").ok


def test_the_directory_is_removed():
    outcome = run_python("import os; open('left', 'w').close(); raise ValueError(os.getcwd())")
    folder = outcome.reason.removeprefix("ValueError: ")
    assert "sandbox-" in folder and not Path(folder).exists()
