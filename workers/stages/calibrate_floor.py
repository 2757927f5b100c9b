"""calibrate-floor: the mass floor of SPOT-gamma (SPOT, appendix D.5), on samples disjoint from every evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from workers.decoding.records import DecodeSettings
from workers.drafters.spot import SpotDrafter
from workers.errors import UserError
from workers.stages import Inputs, StageSession, target_reference
from workers.stages.measure import Setting, build_drafter, decode_sample, warm_up
from workers.stages.trajectories import Prompt, load_prompts
from workers.verifiers import make_verifier

DEFAULTS = {
    "grid": [0.0, 0.02, 0.05, 0.1, 0.2],
    "budgets": [8, 12, 20],
    "tie_band": 0.03,
    "cost": "measured",
    "drafter_options": {},
    "stop": "fill",
    "layout": "batch",
}


def choose(means: dict[float, float], tie_band: float) -> float:
    """The floor of the largest mean ratio, or the smallest floor whose mean is within `tie_band` of it."""
    best = max(means.values())
    return min(floor for floor, mean in means.items() if best <= mean * (1 + tie_band))


def declared_cost(cost: dict[str, float], entry: dict[str, Any], levels: int) -> float:
    """Cost of one decoded sample in plain forwards: 1 + replica x drafts per round, plus `level` per drafting level."""
    drafts = sum(row["replicas"] - 1 for row in entry["rounds"])
    return entry["sample"]["nfe"] + cost["replica"] * drafts + cost["level"] * levels


def decode_all(setting: Setting, prompts: list[Prompt], cost: dict[str, float] | str) -> dict[str, float]:
    """NFE and drafts per sample, and cost per token: seconds if measured, else plain forwards."""
    spent, nfe, drafts, tokens = 0.0, 0, 0, 0
    for prompt in prompts:
        before = setting.drafter.levels if isinstance(setting.drafter, SpotDrafter) else 0
        entry = decode_sample(setting, prompt.sample.id, prompt.tokens)
        levels = setting.drafter.levels - before if isinstance(setting.drafter, SpotDrafter) else 0
        spent += entry["sample"]["wall_s"] if cost == "measured" else declared_cost(cost, entry, levels)
        nfe += entry["sample"]["nfe"]
        drafts += sum(row["drafted"] for row in entry["rounds"])
        tokens += entry["sample"]["generated_tokens"]
    return {"cost_per_token": spent / tokens, "nfe": nfe / len(prompts), "drafts_per_round": drafts / nfe}


def run(params: dict[str, Any], inputs: Inputs, out: Path, session: StageSession) -> dict[str, Any]:
    """Write floor.json with the whole grid; params: target, block_length, generation_length, pools, grid, budgets,
    tie_band, cost, drafter_options; inputs: order_model. Unpadded, T=0, seed 0, all runs back to back."""
    params = {**DEFAULTS, **params}
    target = session.target(target_reference(params, inputs), params["block_length"])
    if any(pool["split"] == "test" for pool in params["pools"]):
        raise UserError("calibrate-floor: pools must not hold test samples; use the calibration split")
    prompts = load_prompts(target, params)
    cost = params["cost"]

    def setting(drafter: str, budget: int, floor: float) -> Setting:
        settings = DecodeSettings(params["generation_length"], params["stop"], budget, layout=params["layout"])
        options = params["drafter_options"] if drafter == "spot" else {}
        made = build_drafter(drafter, options, floor, inputs, target)
        return Setting(target, settings, made, make_verifier("greedy"), seed=0)

    total, done = 1 + len(params["grid"]) * len(params["budgets"]), 1
    control_setting = setting("none", 0, 0.0)
    warm_up(control_setting, prompts[0].tokens)
    control = decode_all(control_setting, prompts, cost)
    session.progress(done, total)
    grid: list[dict[str, Any]] = []
    for floor in params["grid"]:
        for budget in params["budgets"]:
            one = setting("spot", budget, floor)
            warm_up(one, prompts[0].tokens)
            figures = decode_all(one, prompts, cost)
            ratio = control["cost_per_token"] / figures.pop("cost_per_token")
            grid.append({"floor": floor, "budget": budget, "ratio": ratio, **figures})
            done += 1
            session.progress(done, total, ratio=ratio)

    means = {floor: fmean(row["ratio"] for row in grid if row["floor"] == floor) for floor in params["grid"]}
    result = {
        "floor": choose(means, params["tie_band"]),
        "mean_ratio": {str(floor): mean for floor, mean in means.items()},
        "tie_band": params["tie_band"],
        "cost": cost,
        "control_nfe": control["nfe"],
        "samples": len(prompts),
        "grid": grid,
    }
    (out / "floor.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return {key: value for key, value in result.items() if key != "grid"}
