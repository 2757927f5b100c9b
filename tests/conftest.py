"""Settings every test runs under; they are in place before any test module is imported."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
for name in ("DRAFTHOUSE_HOME", "RAY_ADDRESS"):  # a test must not reach the results or the cluster of whoever runs it
    os.environ.pop(name, None)

# A shared machine stalls now and then; wall time per example says nothing about the property.
settings.register_profile("drafthouse", deadline=None)
settings.load_profile("drafthouse")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The file that takes longest comes first, so that of two processes neither waits for the other at the end."""
    items.sort(key=lambda item: item.path.name != "test_end_to_end.py")
