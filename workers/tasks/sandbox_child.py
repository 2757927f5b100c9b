"""The supervisor of one sandboxed program; run as a script by a fresh interpreter, imported by nothing.

Reads the code from standard input, runs it in a forked process and writes one line to standard output: `ok`, or `no`
and the reason of the failure. Arguments: seconds of processor time, seconds of wall-clock time, megabytes of address
space, and how many processes and threads the code may start.

Where the kernel lets it, the code has its own namespaces: no network, no other processes to see or signal, a
read-only file system but for a small empty directory. Its first process, which is not the code, then takes all others
with it when it ends. Elsewhere the supervisor finds descendants by their parents and kills them.
"""

import ctypes
import math
import os
import resource
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 8, 36, 38
CAPABILITY_VERSION_3, CAP_DAC_READ_SEARCH = 0x20080522, 2
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x20000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
APART = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 1, 2, 4, 0x4000, 0x40000
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
NOBODY = 65534
FILE_BYTES = 1 << 20
OPEN_FILES = 64

libc = ctypes.CDLL(None, use_errno=True)


def isolate() -> bool:
    """Enter new namespaces; True if the next child is the first process of one of its own. Root gives up its rights."""
    if os.geteuid() == 0:
        os.chown(".", NOBODY, NOBODY)
        if libc.unshare(APART) == 0:
            return True
        if not give_up_rights():
            return False  # in a user namespace it could not read any more
    user, group = os.geteuid(), os.getegid()
    for flags in (APART, CLONE_NEWNET):
        if libc.unshare(CLONE_NEWUSER | flags) == 0:
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
            return flags == APART
    return False


def give_up_rights() -> bool:
    """Root becomes the user nobody, and every capability goes. True if the standard library can still be read so.

    If it cannot, because it lies in a private directory, the capability to read files stays.
    """
    if os.geteuid() == 0:
        libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    readable = os.access(os.__file__, os.R_OK)  # asks for the user, without capabilities
    kept = 0 if readable else 1 << CAP_DAC_READ_SEARCH
    libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return readable


def hide_files() -> None:
    """In a mount namespace of one's own: nothing can be written but a small directory, and /proc tells nothing."""
    folder = os.getcwd().encode()
    libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
    read_only = (ctypes.c_uint64 * 4)(MS_RDONLY, 0, 0, 0)
    libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, read_only, ctypes.c_size_t(32))
    libc.mount(b"tmpfs", folder, b"tmpfs", MS_NOSUID | MS_NODEV, b"size=16m,nr_inodes=1k,mode=777")
    libc.mount(b"tmpfs", b"/proc", b"tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY, b"size=4k")
    os.chdir(folder)


def limit(seconds: float, megabytes: int, processes: int) -> None:
    limits = {
        resource.RLIMIT_CPU: math.ceil(seconds),
        resource.RLIMIT_AS: megabytes << 20,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: processes and processes + 1,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def refuse_sockets(event: str, arguments: tuple) -> None:
    if event.startswith("socket."):
        raise PermissionError("no network in the sandbox")


def program(code: str, seal: int, report: int) -> None:
    """Run the code in this process and report how it ended; success is signed with what can be read from `seal`.

    Leaving early (sys.exit, os._exit) is not success, nor is the end of a copy that the code forked.
    """
    me = os.getpid()
    try:
        exec(compile(code, "<generated>", "exec"), {"__name__": "__main__"})
        outcome = os.read(seal, 100).decode() + "ok"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error}"[:200]
    if os.getpid() == me:
        os.write(report, outcome.replace("\n", " ").encode(errors="replace"))
    os._exit(0)


def wait_for(child: int, seconds: float) -> int | None:
    """Reap children until `child` ends; its wait status, or None if the time was up first."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        signal.sigtimedwait([signal.SIGCHLD], left)
        while (ended := finished_child())[0] > 0:
            if ended[0] == child:
                return ended[1]
    return None


def finished_child() -> tuple[int, int]:
    """Id and wait status of a child that has ended; id 0 if none has, -1 if there is none left."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return -1, 0


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
    while finished_child()[0] >= 0:
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        signal.sigtimedwait([signal.SIGCHLD], 0.01)


def supervise(code: str, seconds: float, wall: float, megabytes: int, processes: int, apart: bool) -> None:
    """Run the code in a child and print how it ended."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    reports, report = os.pipe()
    seals, seal = os.pipe()
    signature = os.urandom(16).hex()
    os.write(seal, signature.encode())
    os.close(seal)
    child = os.fork()
    if child == 0:
        del signature
        os.close(reports)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        if apart:
            hide_files()
        give_up_rights()
        limit(seconds, megabytes, processes)
        sys.addaudithook(refuse_sockets)
        program(code, seals, report)
    os.close(report)
    status = wait_for(child, wall)
    if not apart:
        end_descendants()
    os.set_blocking(reports, False)
    outcome = verdict(status, read(reports), signature, seconds)
    print(outcome if outcome == "ok" else f"no {outcome}")


def read(descriptor: int) -> str:
    try:
        return os.read(descriptor, 1000).decode(errors="replace")
    except BlockingIOError:
        return ""


def verdict(status: int | None, report: str, signature: str, seconds: float) -> str:
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU)):
        return f"timed out after {seconds:g} s"
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    if report == signature + "ok":
        return "ok"
    return report if report.strip() not in ("", "ok") else "ended without finishing"


def main() -> None:
    seconds, wall = map(float, sys.argv[1:3])
    megabytes, processes = map(int, sys.argv[3:5])
    code = sys.stdin.read()
    apart = isolate()
    first = os.fork() if apart else 0
    if first:
        os.waitpid(first, 0)  # returns when every process of the namespace is gone
        return
    if apart:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    supervise(code, seconds, wall, megabytes, processes, apart)


if __name__ == "__main__":
    main()
