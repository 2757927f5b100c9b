"""Which task runs next, and on which worker: the scheduling rules, without an executor.

The driver owns the workers and tells this state machine what happened to them; nothing here waits, starts a process or
reads a clock, so every rule is tested without Ray.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a task stands. WAITING and RUNNING are open, the others are final."""

    WAITING = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"

    @property
    def settled(self) -> bool:
        return self not in (State.WAITING, State.RUNNING)


@dataclass(frozen=True)
class Task:
    """One piece of work for one worker.

    `needs` names tasks whose output it reads: if one fails, this task is blocked. `after` names tasks that must have
    ended, however they ended (a measurement follows its control). Lower `rank` starts first. `target` is the model that
    the worker has to hold, None if it needs none. `label` names it in messages.
    """

    key: str
    rank: tuple[int, ...]
    needs: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    target: str | None = None
    label: str = ""


class Scheduler:
    """The states of all tasks of one submit.

    `max_failures`: once so many tasks have failed, the waiting ones are cancelled (None: siblings always go on).
    `max_losses`: how often a task may lose its worker before it counts as failed.
    """

    def __init__(self, tasks: Iterable[Task] = (), max_failures: int | None = None, max_losses: int = 2) -> None:
        self.tasks: dict[str, Task] = {}
        self.states: dict[str, State] = {}
        self.messages: dict[str, str] = {}
        self.losses: dict[str, int] = {}
        self._max_failures = max_failures
        self._max_losses = max_losses
        for task in tasks:
            self.add(task)

    def add(self, task: Task) -> None:
        """Adds a task after its predecessors. KeyError for an unknown predecessor, ValueError for a double."""
        if task.key in self.tasks:
            raise ValueError(f"task {task.key} is already scheduled")
        unknown = (task.needs | task.after) - self.tasks.keys()
        if unknown:
            raise KeyError(f"task {task.key} waits for unknown tasks: {', '.join(sorted(unknown))}")
        self.tasks[task.key] = task
        self.states[task.key] = State.WAITING
        for need in sorted(task.needs):
            if self.states[need] in (State.FAILED, State.BLOCKED, State.CANCELLED):
                self._block(task.key, need)

    def ready(self) -> list[Task]:
        """Tasks that may start now, the most urgent first."""
        return sorted(
            (task for task in self._in(State.WAITING) if self._may_start(task)), key=lambda task: (task.rank, task.key)
        )

    def assign(self, idle: Mapping[str, str | None]) -> list[tuple[Task, str]]:
        """Pairs ready tasks with idle workers (worker -> the target it holds) and marks them as running.

        A worker takes the most urgent task that fits the target it has loaded, and changes target only when none does.
        """
        ready = self.ready()
        pairs = []
        for worker in sorted(idle, key=lambda worker: idle[worker] is None):  # those that hold a target choose first
            if not ready:
                break
            task = min(ready, key=lambda task: (_must_load(task.target, idle[worker]), task.rank, task.key))
            ready.remove(task)
            self.states[task.key] = State.RUNNING
            pairs.append((task, worker))
        return pairs

    def done(self, key: str) -> None:
        self._expect_running(key)
        self.states[key] = State.DONE

    def fail(self, key: str, message: str) -> list[str]:
        """Marks a running task as failed; returns the tasks that this blocks or, past the threshold, cancels."""
        self._expect_running(key)
        self.states[key] = State.FAILED
        self.messages[key] = message
        stopped = self._block_dependants(key)
        failures = len(self._in(State.FAILED))
        if self._max_failures is not None and failures >= self._max_failures:
            stopped += self.cancel(f"not started: {failures} failed, the threshold is {self._max_failures}")
        return stopped

    def lose(self, key: str, message: str) -> list[str] | None:
        """The worker of a running task died: None if the task waits for another try, else as `fail`."""
        self._expect_running(key)
        self.losses[key] = self.losses.get(key, 0) + 1
        if self.losses[key] > self._max_losses:
            return self.fail(key, f"{message} (lost its worker {self.losses[key]} times)")
        self.states[key] = State.WAITING
        return None

    def cancel(self, message: str) -> list[str]:
        """Cancels every waiting task and returns their keys; running ones are the driver's to stop."""
        waiting = [task.key for task in self._in(State.WAITING)]
        for key in waiting:
            self.states[key] = State.CANCELLED
            self.messages[key] = message
        return waiting

    def abandon(self, key: str, message: str) -> None:
        """Marks a running task, which the driver has stopped, as cancelled."""
        self._expect_running(key)
        self.states[key] = State.CANCELLED
        self.messages[key] = message

    @property
    def finished(self) -> bool:
        return all(state.settled for state in self.states.values())

    def count(self, *states: State) -> int:
        return sum(state in states for state in self.states.values())

    def _in(self, state: State) -> list[Task]:
        return [self.tasks[key] for key, value in self.states.items() if value is state]

    def _may_start(self, task: Task) -> bool:
        return all(self.states[key] is State.DONE for key in task.needs) and all(
            self.states[key].settled for key in task.after
        )

    def _block(self, key: str, cause: str) -> None:
        self.states[key] = State.BLOCKED
        self.messages[key] = f"needs {self.tasks[cause].label or cause}, which is {self.states[cause].value}"

    def _block_dependants(self, cause: str) -> list[str]:
        blocked = []
        causes = [cause]
        while causes:
            failed = causes.pop()
            for task in self._in(State.WAITING):
                if failed in task.needs:
                    self._block(task.key, failed)
                    blocked.append(task.key)
                    causes.append(task.key)
        return blocked

    def _expect_running(self, key: str) -> None:
        if self.states[key] is not State.RUNNING:
            raise ValueError(f"task {key} is {self.states[key].value}, not running")


def _must_load(wanted: str | None, held: str | None) -> bool:
    return wanted is not None and held is not None and wanted != held
