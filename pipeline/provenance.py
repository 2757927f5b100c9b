"""What a result was made with: source revision, package versions, command line, environment. Imports none of them."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "torch",
    "ray",
    "transformers",
    "tokenizers",
    "safetensors",
    "duckdb",
    "pyarrow",
    "numpy",
    "scipy",
    "pydantic",
)
VARIABLES = (
    "RAY_ADDRESS",
    "RAY_AUTH_MODE",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "HF_DATASETS_OFFLINE",
    "HF_ALLOW_CODE_EVAL",
    "CUDA_VISIBLE_DEVICES",
    "TOKENIZERS_PARALLELISM",
    "OMP_NUM_THREADS",
)
ROOT = Path(__file__).resolve().parent.parent


def versions() -> dict[str, str]:
    """Python, platform, the packages that can change a number, and the environment variables that steer them."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found | {f"${name}": os.environ[name] for name in VARIABLES if name in os.environ}


def git_commit() -> str | None:
    """The commit of the source tree, with "+dirty" if tracked files differ from it; None outside a checkout."""
    top = _git("rev-parse", "--show-toplevel")
    commit = _git("rev-parse", "HEAD")
    if commit is None or top is None or Path(top) != ROOT:  # installed inside somebody else's checkout
        return None
    return commit + ("+dirty" if _git("status", "--porcelain", "--untracked-files=no") else "")


def command_line() -> str:
    """The command that started this process, as one would type it."""
    if Path(sys.argv[0]).name == "__main__.py":
        return shlex.join(["python", "-m", "pipeline", *sys.argv[1:]])
    return shlex.join(sys.argv)


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
