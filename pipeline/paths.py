"""Where things of a submit lie under a home."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.graph import Node

DIRECTORIES = ("artifacts", "logs", "journal", "progress", "reports", "submissions")


def home_directory(home: str | Path | None) -> Path:
    """The home to use: as given, else DRAFTHOUSE_HOME, else ./results."""
    return Path(home or os.environ.get("DRAFTHOUSE_HOME") or "results").expanduser().absolute()


def run_id(identity: str, attempt: int) -> str:
    """The name of one measurement: `attempt` counts from 0."""
    return f"{identity[:16]}-{attempt}"


def artifact_path(home: Path, identity: str) -> Path:
    return home / "artifacts" / identity


def input_paths(home: Path, node: Node) -> dict[str, Path | list[Path]]:
    """Role -> artifact directory, or directories, that a node reads; what the user gives lies where it is."""
    made = {
        role: artifact_path(home, value) if isinstance(value, str) else [artifact_path(home, each) for each in value]
        for role, value in node.inputs.items()
    }
    return made | {role: Path(value) for role, value in node.params.get("given", {}).items()}


def log_path(home: Path, identity: str) -> Path:
    """The log of a node; its attempts follow one another in it."""
    return home / "logs" / f"{identity[:16]}.log"


def journal_path(home: Path, key: str) -> Path:
    """The finished samples of an unfinished measurement (its run id); the checkpoint of a training lies beside it."""
    return home / "journal" / f"{key}.jsonl"


def progress_path(home: Path, worker: str) -> Path:
    return home / "progress" / f"{worker}.json"


def submission_path(home: Path, experiment: str) -> Path:
    """The validated spec of an experiment's latest submit, for `retry`."""
    return home / "submissions" / f"{experiment}.json"
