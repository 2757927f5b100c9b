"""Checks of tasks, prompt pools and their data: names, files, numbers of samples, and that nothing is learnt from
what is evaluated."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipeline import facts
from pipeline.mixture import STAGE_SPLITS, member, shares
from pipeline.names import unknown
from pipeline.yaml_source import Finding, KeyPath, Source, item_path
from workers.errors import UserError

if TYPE_CHECKING:
    from pipeline.spec import Spec


def check_permission(spec: Spec, source: Source) -> Iterator[Finding]:
    for index, task in enumerate(spec.task):
        if task in facts.known_tasks() and facts.executes_code(task) and not spec.allow_code_execution:
            message = f"'{task}' runs generated code; allow it with allow_code_execution: true"
            yield item_path(source, "task", index), message


def check_names(spec: Spec, source: Source) -> Iterator[Finding]:
    """Tasks, pools and splits that there are, and data files that somebody reads."""
    tasks, pools = facts.known_tasks(), (*facts.known_pools(), *spec.data)
    for index, task in enumerate(spec.task):
        if task not in tasks:
            hint = "; a pool has no scorer" if task in pools else ""
            yield item_path(source, "task", index), unknown("task", task, tasks) + hint
    used = set(spec.task) - {*facts.generated_tasks()}
    for stage, settings, place in _stages(spec):
        usual, seen = STAGE_SPLITS[stage], set[tuple[str, str]]()
        for entry in settings.task:
            name, split = member(entry, usual)
            path = _entry_path(source, place, entry)
            if name not in facts.generated_tasks():
                used.add(name)
            if name not in tasks and name not in pools:
                yield path, unknown("task or pool", name, (*tasks, *pools))
            elif split not in (splits := facts.splits_of(name, spec.data)):
                hint = f"; a stage reads {usual} unless it names NAME/SPLIT" if "/" not in entry else ""
                yield path, f"'{name}' has no {split} samples, only {' and '.join(splits)}{hint}"
            elif (name, split) in seen:
                yield path, f"the {split} samples of '{name}' are named twice"
            seen.add((name, split))
    for name, files in spec.data.items():
        if name in facts.generated_tasks():
            yield ("data", name), f"'{name}' is generated, it has no data file"
        elif name not in used and (meant := difflib.get_close_matches(name, used - {*spec.data}, n=1, cutoff=0.6)):
            yield ("data", name), f"no task and no stage reads it; did you mean '{meant[0]}'?"
        elif isinstance(files, dict):
            known = facts.published_splits(name)
            for split in files:
                if split not in known:
                    wrong = unknown("split", split, known) if known else f"the pool '{name}' is one file"
                    yield ("data", name, split), wrong


def check_samples(spec: Spec, source: Source) -> Iterator[Finding]:
    """Tasks without a scorer, without data, or with fewer samples than asked for."""
    for index, task in enumerate(spec.task):
        if task not in facts.known_tasks():
            continue
        missing = facts.missing_module(task)
        if missing:
            text = f"'{task}' is scored with {missing}, which is not installed: pip install -e '.[bench]'"
            yield item_path(source, "task", index), text
        try:
            available = facts.count_samples(task, "test", spec.samples, spec.data)
        except UserError as error:
            yield _data_path(source, task, item_path(source, "task", index)), str(error)
            continue
        if available == 0:
            yield item_path(source, "task", index), f"'{task}' has no test samples: its data set is empty"
        elif available < spec.samples:
            yield ("samples",), f"'{task}' has only {available} test samples, got {spec.samples}"


def check_prompts(spec: Spec, source: Source) -> Iterator[Finding]:
    """The prompts of the stages: enough of them, and none that is evaluated."""
    evaluated: set[str] | None = None
    for stage, settings, place in _stages(spec):
        for entry, pool in shares(settings.task, STAGE_SPLITS[stage], 0, settings.prompts).items():
            name, path = pool["task"], _entry_path(source, place, entry)
            if name in facts.generated_tasks() or not facts.has_split(name, pool["split"], spec.data):
                continue  # endless, and disjoint from its test split by construction; or reported by check_names
            try:
                samples = facts.samples_of(**pool, data=spec.data)
            except UserError as error:
                yield _data_path(source, name, path), str(error)
                continue
            if len(samples) < pool["count"]:
                text = f"'{name}' has only {len(samples)} {pool['split']} samples"
                yield path, f"{text}, and the stage takes {pool['count']} of it"
            if evaluated is None:
                evaluated = _evaluated(spec)
            both = [sample for sample in samples if {sample.id, _plain(sample.problem)} & evaluated]
            if both:
                text = f"{len(both)} of its {len(samples)} prompts from '{name}' are evaluated too"
                advice = "take them from another split or pool"
                if pool["split"] == "calibration":
                    advice = "evaluate fewer samples"
                yield path, f"{text}, the first is {both[0].id}; {advice}"


def _evaluated(spec: Spec) -> set[str]:
    """Ids and problems of all samples that are evaluated, as far as they can be read."""
    found: set[str] = set()
    for task in spec.task:
        if task not in facts.known_tasks() or task in facts.generated_tasks():
            continue
        try:
            samples = facts.samples_of(task, "test", 0, spec.samples, spec.data)
        except UserError:
            continue  # reported by check_samples
        found.update(text for sample in samples for text in (sample.id, _plain(sample.problem)))
    return found


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()


def _data_path(source: Source, name: str, otherwise: KeyPath) -> KeyPath:
    """Where the data of a task is named; if it comes from the hub, where the task is."""
    return ("data", name) if source.contains(("data", name)) else otherwise


def _stages(spec: Spec) -> Iterator[tuple[str, Any, KeyPath]]:
    """The settings of every stage that reads prompts, and where they are: the spec's, then those of single drafters."""
    for stage in STAGE_SPLITS:
        yield stage, getattr(spec.stages, stage), ("stages", stage)
        for label, options in spec.drafters.items():
            if getattr(options, stage, None) is not None:
                yield stage, getattr(spec.stages_of(label), stage), ("drafters", label, stage)


def _entry_path(source: Source, place: KeyPath, entry: str) -> KeyPath:
    """Where a stage names a task: the key of a mapping, the item of a list, or the one value."""
    path = (*place, "task")
    if source.contains((*path, entry)):
        return (*path, entry)
    items: Any = source.data
    for part in path:
        items = items.get(part) if isinstance(items, dict) else None
    return (*path, items.index(entry)) if isinstance(items, list) and entry in items else path
