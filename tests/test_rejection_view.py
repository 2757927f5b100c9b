"""The warehouse's view of the rejection checks holds what the stage returned."""

from __future__ import annotations

from pathlib import Path

from warehouse import Store

CHECKS = [
    {
        "check": "accept-residual",
        "proposal": "stale",
        "states": 8,
        "draws": 1000,
        "statistic": 12.5,
        "dof": 9,
        "p_value": 0.19,
        "passed": True,
    },
    {
        "check": "acceptance",
        "proposal": "flattened",
        "states": 8,
        "draws": 1000,
        "statistic": 0.003,
        "dof": None,
        "p_value": None,
        "passed": False,
    },
]


def test_one_row_per_check(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        plan = [{"identity": name, "kind": "check-rejection", "label": f"check/{name}"} for name in "ab"]
        store.plan_nodes("e", plan)
        store.node_state("e", "a", "running")
        summary = {"verifier": "pt-rejection", "temperature": 0.7, "passed": False, "checks": CHECKS}
        store.node_state("e", "a", "done", summary=summary)
        found = store.query("SELECT * FROM rejection_checks ORDER BY check_name").to_pylist()
    shared = {"experiment": "e", "identity": "a", "label": "check/a", "verifier": "pt-rejection", "temperature": 0.7}
    assert found == [shared | {"check_name": check.pop("check"), **check} for check in CHECKS]
