"""The scheduling rules, on random task graphs with random failures and dying workers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.schedule import Scheduler, State, Task


@st.composite
def task_graphs(draw: st.DrawFn) -> list[Task]:
    """Random acyclic graphs; a third of the edges are 'after' (a control), the others are 'needs'."""
    tasks: list[Task] = []
    for index in range(draw(st.integers(1, 14))):
        earlier = [task.key for task in tasks]
        edges = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        kinds = [draw(st.integers(0, 2)) for _ in edges]
        tasks.append(
            Task(
                key=f"t{index}",
                rank=(draw(st.integers(0, 3)),),
                needs=frozenset(key for key, kind in zip(edges, kinds, strict=True) if kind),
                after=frozenset(key for key, kind in zip(edges, kinds, strict=True) if not kind),
                target=draw(st.sampled_from([None, "a", "b"])),
            )
        )
    return tasks


def simulate(
    scheduler: Scheduler, failing: set[str], lossy: set[str], workers: int, seed: int
) -> list[tuple[str, str]]:
    """Runs all tasks on pretended workers that end in random order; returns (event, key) in the order of events."""
    chance = random.Random(seed)
    held: dict[str, str | None] = {f"w{index}": None for index in range(workers)}
    running: dict[str, Task] = {}
    trace = []
    while not scheduler.finished:
        pairs = scheduler.assign({worker: held[worker] for worker in held if worker not in running})
        for task, worker in pairs:
            assert worker not in running
            running[worker] = task
            trace.append(("start", task.key))
        assert running, "nothing runs, nothing is finished: a deadlock"
        worker = chance.choice(sorted(running))
        task = running.pop(worker)
        held[worker] = task.target or held[worker]
        if task.key in lossy:
            scheduler.lose(task.key, "worker died")
            held[worker] = None
        elif task.key in failing:
            scheduler.fail(task.key, "broken")
        else:
            scheduler.done(task.key)
        trace.append(("end", task.key))
    return trace


@settings(max_examples=150, deadline=None)
@given(task_graphs(), st.data())
def test_every_task_ends_once_and_only_dependants_of_failures_are_blocked(
    tasks: list[Task], data: st.DataObject
) -> None:
    keys = [task.key for task in tasks]
    failing = data.draw(st.sets(st.sampled_from(keys)))
    lossy = data.draw(st.sets(st.sampled_from(keys)))
    scheduler = Scheduler(tasks, max_losses=2)
    trace = simulate(scheduler, failing, lossy, data.draw(st.integers(1, 4)), data.draw(st.integers(0, 99)))

    bad: dict[str, State] = {}
    for task in tasks:  # expected outcome, worked out from the graph alone
        if task.needs & bad.keys():
            bad[task.key] = State.BLOCKED
        elif task.key in failing | lossy:
            bad[task.key] = State.FAILED
        assert scheduler.states[task.key] is bad.get(task.key, State.DONE)
        starts = trace.count(("start", task.key))
        expected = 0 if bad.get(task.key) is State.BLOCKED else 3 if task.key in lossy else 1
        assert starts == expected

    for task in tasks:
        if ("start", task.key) in trace:
            begin = trace.index(("start", task.key))
            for before in task.needs | task.after:
                ends = [index for index, event in enumerate(trace) if event == ("end", before)]
                assert not ends or ends[-1] < begin, "started before a predecessor had ended"


def test_a_measurement_waits_for_its_control_but_survives_its_failure() -> None:
    scheduler = Scheduler([Task("control", (1,)), Task("method", (0,), after=frozenset({"control"}))])
    [(task, _)] = scheduler.assign({"w0": None, "w1": None})
    assert task.key == "control"
    assert scheduler.fail("control", "broken") == []
    assert [task.key for task, _ in scheduler.assign({"w0": None})] == ["method"]


def test_workers_keep_their_target_and_take_the_most_urgent_task_for_it() -> None:
    tasks = [
        Task("b0", (0,), target="b"),
        Task("a0", (1,), target="a"),
        Task("b1", (2,), target="b"),
        Task("a1", (3,), target="a"),
    ]
    scheduler = Scheduler(tasks)
    pairs = {worker: task.key for task, worker in scheduler.assign({"w0": None, "w1": "a"})}
    assert pairs == {"w0": "b0", "w1": "a0"}


def test_the_failure_threshold_cancels_what_has_not_started() -> None:
    scheduler = Scheduler([Task(f"t{index}", (index,)) for index in range(5)], max_failures=2)
    scheduler.assign({"w0": None, "w1": None, "w2": None})
    assert scheduler.fail("t0", "broken") == []
    assert sorted(scheduler.fail("t1", "broken")) == ["t3", "t4"]
    scheduler.done("t2")  # what was running may still end well
    assert scheduler.finished
    assert scheduler.count(State.CANCELLED) == 2


def test_a_task_added_late_is_scheduled_and_a_double_is_refused() -> None:
    scheduler = Scheduler([Task("run-1", (0,))])
    scheduler.assign({"w0": None})
    scheduler.done("run-1")
    assert scheduler.finished
    scheduler.add(Task("run-2", (0,), after=frozenset({"run-1"})))
    assert [task.key for task in scheduler.ready()] == ["run-2"]
    with pytest.raises(ValueError, match="already scheduled"):
        scheduler.add(Task("run-2", (0,)))
    with pytest.raises(KeyError, match="unknown"):
        scheduler.add(Task("run-3", (0,), needs=frozenset({"nowhere"})))
