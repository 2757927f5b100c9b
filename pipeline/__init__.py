"""The control plane: what runs, where and in which order. For notebooks: `load_spec(path)` and `submit(spec)`."""

from __future__ import annotations

from typing import Any

__all__ = ["load_spec", "submit"]


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that importing one light module of this package does not import all of it.
    if name == "load_spec":
        from pipeline.spec import load_spec

        return load_spec
    if name == "submit":
        from pipeline.driver import submit

        return submit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
