"""Sentences computed from the data: what was found, and what is missing to say more."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from pipeline.report.data import ReportData, Row
from pipeline.report.numbers import percent
from pipeline.report.shape import CONTROL, SETTING
from pipeline.report.style import method_rank

CPU_NOTE = (
    "These runs were made on a CPU, where a replica of the block is not free as it nearly is on a GPU: verifying nine "
    "replicas takes several plain forwards. A throughput ratio below 1 is then no error. NFE carries over to other "
    "devices, ratios do not."
)


def headlines(data: ReportData) -> list[str]:
    """What the data says, most important first; nothing that it cannot carry."""
    exactness = _exactness(data)
    found = [*_forwards(data), *_throughput(data), *exactness, *_after_the_answer(data), *_order_model(data)]
    if data.differing:  # figures of a method that is not exact after all mean nothing, so this comes before them
        found.sort(key=exactness.__contains__, reverse=True)
    if any(on_cpu(row["device_class"]) for row in data.cells):
        found.append(CPU_NOTE)
    return found


def gaps(data: ReportData) -> list[str]:
    """What a reader would look for and does not find, and why."""
    found = []
    states = Counter(row["state"] for row in data.nodes)
    if states["planned"] + states["running"]:
        found.append(
            f"The experiment is not finished: {states['done']} of {len(data.nodes)} nodes are done, "
            f"{states['running']} running, {states['planned']} waiting. Everything below is of the runs so far."
        )
    if data.experiment["stale"]:
        found.append("The latest submit has no runs yet: those shown belong to an earlier one of the same name.")
    if states["failed"]:
        found.append(f"{_count(states['failed'], 'node')} failed; the causes are listed below.")
    if states["cancelled"]:
        found.append(f"{_count(states['cancelled'], 'node')} cancelled.")
    if data.limited:
        found.append(
            f"{_count(data.limited, 'run')} made with a limit on the samples; "
            "limited runs are kept out of every table and figure."
        )
    if not data.cells:
        found.append("No run without a limit has finished yet, so there are no tables and figures.")
        return found + data.problems
    unpaired = [row for row in data.cells if row["method"] != CONTROL and row["ratio"] is None]
    if unpaired:
        names = sorted(
            f"{row['method']} D{row['budget']} on {row['task']} at T = {row['temperature']:g}" for row in unpaired
        )
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        found.append(
            f"{_count(len(names), 'cell')} without a control over the same samples, seed and device, "
            f"so without cut and ratio: {', '.join(names[:4])}{more}."
        )
    if data.rescored:
        tasks = ", ".join(row["task"] for row in data.rescored)
        count = _count(sum(row["samples"] for row in data.rescored), "sample")
        found.append(
            f"Scored unlike the control's although the tokens are the same: {count} of {tasks}. The scorer is not "
            "reliable on this machine (a time limit, perhaps), and neither is the accuracy shown here."
        )
    if all(row["n_seeds"] < 2 for row in data.cells):
        found.append("One seed only: there is no spread, and no difference between methods can be called a win.")
    if not data.curves:
        found.append("No order model was trained in this experiment, so there is no learning curve.")
    return found + data.problems


def on_cpu(device_class: str | None) -> bool:
    """Whether a device class names a CPU (the workers append the number of threads to its model name)."""
    return bool(device_class and re.search(r"\bthreads?$", device_class))


def _forwards(data: ReportData) -> list[str]:
    contests = _contests(data.cells, "nfe")
    best = _fewest(contests)
    if best is None:
        return []
    ours = [row for rows in contests for row in rows if row["method"] == best]
    ahead = [rows for rows in contests if best in _leaders(rows)]
    shared = sum(len(_leaders(rows)) > 1 for rows in ahead)
    cuts = [row["nfe_reduction"] for row in ours if row["nfe_reduction"]]
    settings = (
        f"{len(ahead)} of {len(contests)} settings (task, temperature and budget{f'; {shared} shared' * (shared > 0)})"
    )
    than = f": {_range(cuts, 1)} times fewer than the draft-free control" if cuts else ""
    found = [f"{best} needs the fewest target forwards in {settings}{than}."]
    margins: dict[int, list[float]] = defaultdict(list)
    rivals = set()
    for rows in contests:
        own = [row for row in rows if row["method"] == best]
        others = [row for row in rows if row["drafter"] != ours[0]["drafter"]]
        if own and others:
            other = min(others, key=lambda row: row["nfe"])
            rivals.add(other["method"])
            margins[other["budget"]].append(100 * (1 - own[0]["nfe"] / other["nfe"]))
    if margins:
        parts = ", ".join(f"{_range(values, 0)} % at D{budget}" for budget, values in sorted(margins.items()))
        names = ", ".join(sorted(rivals))
        found.append(f"Against the best other drafter of each setting ({names}), {best} saves forwards: {parts}.")
    return found


def _throughput(data: ReportData) -> list[str]:
    contests = _contests(data.cells, "ratio")
    if not contests:
        return []
    best, wins = Counter(max(rows, key=lambda row: row["ratio"])["method"] for rows in contests).most_common(1)[0]
    ratios = [row["ratio"] for rows in contests for row in rows]
    ours = _range([row["ratio"] for rows in contests for row in rows if row["method"] == best], 2)
    found = [f"{best} has the highest throughput in {wins} of {len(contests)} settings, at {ours} times its control's."]
    if max(ratios) < 1:
        devices = " and ".join(sorted({row["device_class"] or "an unknown device" for row in data.cells}))
        found.append(
            f"No drafter is faster than decoding without drafts on {devices}: ratios {_range(ratios, 2, '×')}."
        )
    return found


def _exactness(data: ReportData) -> list[str]:
    exact = [row for row in data.exactness if row["distribution_preserving"] and row["compared"]]
    compared = sum(row["compared"] for row in exact)
    differing = compared - sum(row["identical"] for row in exact)
    if not compared:
        return []
    if not differing:
        return [f"All {compared} runs of exact methods with a control match it token for token in 100 % of samples."]
    worst = min(exact, key=lambda row: row["tokens_match_min"])
    verdict = "EXACTNESS FAILS" if any(row["failure"] for row in data.differing) else "Exactness in half precision"
    return [
        f"{verdict}: {differing} of {compared} runs of exact methods differ from their control; the worst is "
        f"{worst['method']} at T = {worst['temperature']:g} with {percent(worst['tokens_match_min'])} of samples equal."
    ]


def _after_the_answer(data: ReportData) -> list[str]:
    best = _fewest(_contests(data.cells, "nfe"))
    shares = [row["cut_answer_share"] for row in data.cells if row["method"] == best]
    after = [100 * (1 - share) for share in shares if share is not None]
    if not after:
        return []
    return [
        f"Of the forwards that {best} saves, {_range(after, 0)} % fall after the first stop id, "
        "where the text has ended and blocks are filler."
    ]


def _order_model(data: ReportData) -> list[str]:
    found = []
    for curve in data.curves:
        last = curve.content[-1] if curve.content else {}
        if last.get("accuracy") is not None and last.get("baseline") is not None:
            model = f"The order model of {curve.name('train')}" if len(data.curves) > 1 else "The order model"
            found.append(
                f"{model} predicts the next commit with {percent(last['accuracy'])} accuracy on held-out trajectories, "
                f"stale confidence with {percent(last['baseline'])}."
            )
    return found


def _leaders(rows: list[Row]) -> set[str]:
    """The methods with the fewest forwards, more than one where they are level."""
    least = min(row["nfe"] for row in rows)
    return {row["method"] for row in rows if row["nfe"] <= least * (1 + 1e-9)}


def _fewest(contests: list[list[Row]]) -> str | None:
    """The method that leads most often; of several, the one that comes first in every table."""
    leads = Counter(method for rows in contests for method in _leaders(rows))
    return min(leads, key=lambda method: (-leads[method], method_rank(method)), default=None)


def _contests(cells: list[Row], column: str) -> list[list[Row]]:
    """Drafted exact cells that differ in their method only, where there are at least two to compare; oracles do not
    compete."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in cells:
        if row["method"] == CONTROL or row["drafter"].startswith("oracle-"):
            continue
        if row["distribution_preserving"] and row[column] is not None:
            groups[tuple(row[name] for name in (*SETTING, "task", "budget"))].append(row)
    return [rows for rows in groups.values() if len({row["method"] for row in rows}) > 1]


def _range(values: Iterable[float], digits: int, unit: str = "") -> str:
    present = list(values)
    low, high = (f"{value:.{digits}f}".replace("-", "−") for value in (min(present), max(present)))
    return f"{low}{unit}" if low == high else f"{low}{' to ' if min(present) < 0 else '–'}{high}{unit}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
