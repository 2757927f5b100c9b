"""Packaging: the lock fits the ranges, imports are declared, a wheel holds the data files, make installs once."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "workers", "warehouse")
IGNORED = {*PACKAGES, *sys.stdlib_module_names, "pydantic_core"}  # the last is a part of pydantic
# The suite itself may run under make, whose variables would reach the make that is tested.
OUTSIDE_MAKE = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for group in (PROJECT["dependencies"], *extras) for text in group]


def test_lock_pins_every_requirement_within_its_range() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = dict(line.split("==") for line in lines)
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    for requirement in requirements():
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
    assert "+" not in pins["torch"]  # a local tag would shut out either the CPU or the CUDA build


def test_every_import_is_declared() -> None:
    declared = {canonicalize_name(requirement.name) for requirement in requirements()}
    owners = packages_distributions()
    undeclared = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for top in {name.split(".")[0] for name in names} - IGNORED:
                if not declared & {canonicalize_name(owner) for owner in owners.get(top, ())}:
                    undeclared.add(f"{path.relative_to(ROOT)}: {top}")
    assert not undeclared


def test_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    files = {str(path.relative_to(ROOT)) for path in paths if "__pycache__" not in path.parts}
    for name in (*files, "pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "source" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*command, "-w", str(tmp_path), str(tmp_path / "source")], check=True, capture_output=True, timeout=120
    )
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert files <= held, sorted(files - held)


def dry_run(folder: Path, goal: str, *options: str) -> list[str]:
    """The commands `make` would run for the goal."""
    command = ["make", "-n", goal, *options]
    done = subprocess.run(command, cwd=folder, env=OUTSIDE_MAKE, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_make_installs_once_and_again_when_the_lock_changes(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
        os.utime(tmp_path / name, (1_000, 1_000))
    fresh = dry_run(tmp_path, "test")
    assert any("-m venv .venv" in line for line in fresh)
    assert any("install" in line and "-c constraints.txt" in line for line in fresh)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("bin/pip", ".installed", ".installed-test"):
        (tmp_path / ".venv" / name).touch()
    assert dry_run(tmp_path, "test") == [".venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder"]
    assert dry_run(tmp_path, "main") == [".venv/bin/python -m pipeline submit specs/main.yaml"]
    os.utime(tmp_path / "constraints.txt", (4_000_000_000, 4_000_000_000))
    assert any("install" in line for line in dry_run(tmp_path, "main"))


def test_an_old_python_gets_one_clear_line(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").touch()
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo "Python 3.9.1" && exit\nexit 1\n')
    old.chmod(0o755)
    command = ["make", "main", f"PYTHON={old}"]
    done = subprocess.run(command, cwd=tmp_path, env=OUTSIDE_MAKE, capture_output=True, text=True)
    assert done.returncode != 0
    first = done.stderr.splitlines()[0]
    assert re.search(r"needs Python 3\.11 or newer.*Python 3\.9\.1.*make PYTHON=", first)
