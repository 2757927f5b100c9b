"""The supervisor of one sandboxed program; run as a script by a fresh interpreter, imported by nothing.

Reads the code from standard input, runs it in a forked child and writes one line, `ok` or the reason of the failure, to
standard output. Arguments: seconds of wall-clock time, megabytes of address space.
"""

import ctypes
import math
import os
import resource
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
FILE_BYTES = 1 << 20
OPEN_FILES = 64


def isolate() -> None:
    """Orphans of the program become children of this process; no network where the kernel lets us."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if libc.unshare(CLONE_NEWNET) != 0:
        libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)


def limit(seconds: float, megabytes: int) -> None:
    limits = {
        resource.RLIMIT_CPU: math.ceil(seconds) + 1,
        resource.RLIMIT_AS: megabytes << 20,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,  # root is exempt
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def refuse_sockets(event: str, arguments: tuple) -> None:
    if event.startswith("socket."):
        raise PermissionError("no network in the sandbox")


def program(code: str, seconds: float, megabytes: int, report: int) -> None:
    """Run the code in this process and report how it ended; leaving early (sys.exit) is not success."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    limit(seconds, megabytes)
    sys.addaudithook(refuse_sockets)
    try:
        exec(compile(code, "<generated>", "exec"), {"__name__": "__main__"})
        outcome = "ok"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error}"[:200]
    os.write(report, outcome.replace("\n", " ").encode(errors="replace"))
    os._exit(0)


def reap(child: int, seconds: float) -> bool:
    """Wait for the child; False if the time was up first."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        signal.sigtimedwait([signal.SIGCHLD], left)
        while (ended := finished_child()) > 0:
            if ended == child:
                return True
    return False


def finished_child() -> int:
    """A child that has ended; 0 if none has, -1 if there is none left."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return -1


def descendants() -> list[int]:
    """Every process below this one, by the parents in /proc; whoever escaped its session is among them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def end_descendants() -> None:
    while finished_child() >= 0:
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        signal.sigtimedwait([signal.SIGCHLD], 0.01)


def main() -> None:
    seconds, megabytes = float(sys.argv[1]), int(sys.argv[2])
    code = sys.stdin.read()
    isolate()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        program(code, seconds, megabytes, write_end)
    os.close(write_end)
    in_time = reap(child, seconds)
    end_descendants()
    report = os.read(read_end, 1000).decode(errors="replace")
    print((report or "ended without finishing") if in_time else f"timed out after {seconds:g} s")


if __name__ == "__main__":
    main()
