"""Checks that need more than one setting or the world: unknown names, meaningless combinations, missing files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pipeline import checks_data, facts, grid
from pipeline.drafter_settings import BUILT_IN, MADE_ON, STAGE_OPTIONS, Drafter, Oracle, Trajectory
from pipeline.names import LAW_ONLY, VERIFIERS, unknown
from pipeline.settings import Exclude, TargetRef
from pipeline.yaml_source import Finding, Problem, Source, item_path
from workers.decoding.acceptance import FORMS, is_subset, parse_acceptance
from workers.decoding.caches import cache_problem
from workers.errors import UserError

if TYPE_CHECKING:
    from pipeline.spec import Spec

# The settings that decide which cells there are.
GRID = {*Exclude.model_fields, "drafters", "exclude", "control"}


def find_problems(spec: Spec, source: Source, broken: frozenset[str]) -> list[Problem]:
    """All problems of a spec whose settings in `broken` are known to be wrong, and were replaced, already."""
    findings = [finding for needs, check in _CHECKS if not broken & needs for finding in check(spec, source)]
    if not GRID & (broken | {str(path[0]) for path, _ in findings}):
        findings += _check_cells(spec, source)
    return [source.problem(path, message) for path, message in findings]


def _check_targets(spec: Spec, source: Source) -> Iterator[Finding]:
    names = [target.name for target in spec.target]
    for index, target in enumerate(spec.target):
        path = item_path(source, "target", index)
        if target.name in names[:index]:
            yield path + ("name",), f"two targets are called '{target.name}'"
        elif target.checkpoint is None and target.name not in facts.PACKAGED:
            hint = "; a target of your own is {checkpoint: DIRECTORY, name: LABEL}"
            yield path, unknown("target", target.name, facts.PACKAGED) + hint
        elif target.checkpoint is not None and target.name in facts.PACKAGED:
            yield path + ("name",), f"'{target.name}' is the name of a packaged target; choose another label"
        elif target.checkpoint is not None and (problem := facts.checkpoint_problem(target)):
            yield path + ("checkpoint",), problem


def _check_lengths(spec: Spec, source: Source) -> Iterator[Finding]:
    for target in spec.target:
        if target.checkpoint is not None and facts.checkpoint_problem(target):
            continue
        for index, length in enumerate(spec.block_length):
            if problem := _block_length_problem(target, length):
                yield item_path(source, "block_length", index), problem
        limit = facts.max_positions(target)
        for index, length in enumerate(spec.generation_length):
            if limit is not None and length >= limit:
                message = f"'{target.name}' has a context of {limit} positions, prompt included; got {length}"
                yield item_path(source, "generation_length", index), message


def _block_length_problem(target: TargetRef, length: int) -> str | None:
    known = facts.BLOCK_LENGTHS.get(target.name) if target.checkpoint is None else None
    if known and length not in known:
        return f"'{target.name}' decodes at block length {' or '.join(map(str, known))}, got {length}"
    return None


def _check_origins(spec: Spec, source: Source) -> Iterator[Finding]:
    """Where the artifacts of a drafter come from, if not from the target it drafts for."""
    named = {target.name: target for target in spec.target}
    for label, options in spec.drafters.items():
        for name in MADE_ON:
            place, path = getattr(options, name, None), ("drafters", label, name)
            if place is None:
                continue
            target = spec.target_of(place)
            if target.checkpoint is None and target.name not in facts.PACKAGED:
                known = dict.fromkeys((*named, *facts.PACKAGED))
                hint = "; a target of your own is {checkpoint: DIRECTORY, name: LABEL}"
                yield path, unknown("target", target.name, known) + hint
            elif named.setdefault(target.name, target) != target:
                yield (*path, "name"), f"another target is called '{target.name}'; choose another label"
            elif target.checkpoint is not None and (problem := facts.checkpoint_problem(target)):
                yield (*path, "checkpoint"), problem
            elif place.block_length and (problem := _block_length_problem(target, place.block_length)):
                yield (*path, "block_length"), problem
        given = getattr(options, "order_model", None)
        if given is not None and (problem := facts.order_model_problem(given)):
            yield ("drafters", label, "order_model"), problem


def _check_heads(spec: Spec, source: Source) -> Iterator[Finding]:
    settings = {("stages", "train"): spec.stages.train}
    for label, options in spec.drafters.items():
        if getattr(options, "train", None) is not None:
            settings["drafters", label, "train"] = spec.stages_of(label).train
    for path, train in settings.items():
        if train.width % train.heads:
            blamed = (inner for inner in source.origins if inner in ((*path, "width"), (*path, "heads")))
            yield next(blamed, path), f"width {train.width} is not a multiple of heads {train.heads}"


def _check_drafters(spec: Spec, source: Source) -> Iterator[Finding]:
    written = source.data.get("drafters")  # labels count as known even where their options are wrong
    known = list(dict.fromkeys(("none", *BUILT_IN, *(written if isinstance(written, dict) else ()))))
    for index, label in enumerate(spec.drafter):
        if label not in known:
            yield item_path(source, "drafter", index), unknown("drafter", label, known)


def _check_labels(spec: Spec, source: Source) -> Iterator[Finding]:
    for label, options in spec.drafters.items():
        if label in ("none", "control"):
            yield ("drafters", label), f"'{label}' names the draft-free control; choose another label"
        elif label in BUILT_IN and options.kind != label:
            yield ("drafters", label), f"'{label}' is a built-in drafter, so its kind cannot be '{options.kind}'"


def _check_methods_differ(spec: Spec, source: Source) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for index, label in enumerate(spec.drafter):
        if label in spec.drafters or label in BUILT_IN:
            options, stages = spec.drafter_settings(label), spec.stages_of(label)
            made = {name: getattr(stages, name) for name in STAGE_OPTIONS if hasattr(options, name)}
            settings = f"{options.model_dump_json(exclude=set(STAGE_OPTIONS))} {made}"
            if settings in seen:
                yield item_path(source, "drafter", index), f"'{label}' is the same drafter as '{seen[settings]}'"
            seen[settings] = label


def _check_verifiers(spec: Spec, source: Source) -> Iterator[Finding]:
    for index, verifier in enumerate(spec.verifier):
        path = item_path(source, "verifier", index)
        if is_subset(verifier):
            try:
                parse_acceptance(verifier)
            except UserError as error:
                yield path, str(error)
        elif verifier not in VERIFIERS:
            yield path, unknown("verifier", verifier, (*VERIFIERS, *FORMS))


def _check_budget(spec: Spec, source: Source) -> Iterator[Finding]:
    methods = [label for label in spec.drafter if label != "none"]
    if methods and not spec.budget:
        yield ("budget",), f"required, but missing: the most drafts per round of {', '.join(methods)}"
    if spec.budget and not methods:
        yield ("budget",), "a budget without a drafter: the control drafts nothing"


def _check_control(spec: Spec, source: Source) -> Iterator[Finding]:
    if "none" in spec.drafter and not spec.control.include:
        yield ("control", "include"), "false, yet drafter lists 'none'"


def _check_exclude(spec: Spec, source: Source) -> Iterator[Finding]:
    for index, entry in enumerate(spec.exclude):
        if not entry.named:
            yield ("exclude", index), "names no column, so it would exclude everything"
        if {"none", "control"} & set(entry.drafter or ()):
            message = "a method needs its control; to measure without one set control: {include: false}"
            yield ("exclude", index, "drafter"), message


def _check_cells(spec: Spec, source: Source) -> Iterator[Finding]:
    unmatched = [index for index in grid.unmatched(spec) if not _is_overridden(source, spec.exclude[index])]
    for index in unmatched:
        yield ("exclude", index), "matches no cell of the grid"
    runs = [] if unmatched else grid.expand(spec)
    if not unmatched and not runs:
        yield ("exclude",), "leaves no cell to measure"
    targets = {target.name: target for target in spec.target}
    for name, cache in dict.fromkeys((run.cell.target, run.cell.cache) for run in runs):
        if problem := cache_problem(cache, facts.attention(targets[name])):
            yield ("cache",), f"target '{name}': {problem}"
    yield from _check_trajectories(spec, source, runs)
    for rule, verifier in dict.fromkeys((run.cell.commit_rule, run.cell.verifier) for run in runs):
        if verifier in LAW_ONLY and rule != "single":
            message = f"'{rule}' with verifier {verifier}: it corrects one token per step; use commit rule single"
            yield ("commit_rule",), message
    pairs = dict.fromkeys((run.cell.method, run.cell.verifier) for run in runs if run.cell.temperature > 0)
    for method, verifier in pairs:
        if method != "control" and (problem := _verifier_problem(spec.drafter_settings(method), verifier)):
            message = f"'{method}' with verifier {verifier}: {problem}, or exclude it"
            yield item_path(source, "drafter", spec.drafter.index(method)), message


def _is_overridden(source: Source, entry: Exclude) -> bool:
    """Whether a column that the entry names was set from outside: what it excludes may then not be there."""
    return any(path[:1] == (column,) for column in entry.named for path in source.origins)


def _check_trajectories(spec: Spec, source: Source, runs: Iterable[grid.Run]) -> Iterator[Finding]:
    for method, budget, cache in dict.fromkeys((run.cell.method, run.cell.budget, run.cell.cache) for run in runs):
        drafter = None if method == "control" else spec.drafter_settings(method)
        if not isinstance(drafter, Trajectory):
            continue
        path = item_path(source, "drafter", spec.drafter.index(method))
        if budget < drafter.nodes:
            yield path, f"'{method}' drafts up to {drafter.nodes} states a round; a budget of {budget} is below, exclude it"
        if drafter.inter_blocks and cache != "dual":
            yield path, f"'{method}' with inter_blocks needs full attention and cache dual, not {cache}; set inter_blocks: 0"


def _verifier_problem(drafter: Drafter, verifier: str) -> str | None:
    """Why drafts cannot be verified that way at T>0, and what to do."""
    if isinstance(drafter, Oracle) and verifier != "coupled":
        return "at T>0 the future is known under the coupled noise only; use verifier coupled"
    if isinstance(drafter, Trajectory) and verifier in LAW_ONLY:
        return "its drafts fill several positions at once; use greedy, uncoupled, coupled or a subset acceptance"
    if verifier == "rejection" and not (drafter.kind == "chain" or getattr(drafter, "shape", None) == "chain"):
        chain = "shape: chain or " if drafter.kind == "spot" else ""
        return f"it drafts trees, and rejection sampling takes one proposal per link; use {chain}verifier pt-rejection"
    return None


_CHECKS: tuple[tuple[frozenset[str], Callable[[Spec, Source], Iterator[Finding]]], ...] = (
    (frozenset({"task", "allow_code_execution"}), checks_data.check_permission),
    (frozenset({"data", "task", "stages", "drafters"}), checks_data.check_names),
    (frozenset({"data", "task", "samples"}), checks_data.check_samples),
    (frozenset({"data", "task", "samples", "stages", "drafters"}), checks_data.check_prompts),
    (frozenset({"target"}), _check_targets),
    (frozenset({"target", "block_length", "generation_length"}), _check_lengths),
    (frozenset({"drafter"}), _check_drafters),
    (frozenset({"drafters"}), _check_labels),
    (frozenset({"drafters", "target"}), _check_origins),
    (frozenset({"drafters", "stages"}), _check_heads),
    (frozenset({"drafter", "drafters", "stages"}), _check_methods_differ),
    (frozenset({"verifier"}), _check_verifiers),
    (frozenset({"drafter", "budget"}), _check_budget),
    (frozenset({"drafter", "control"}), _check_control),
    (frozenset({"exclude"}), _check_exclude),
)
