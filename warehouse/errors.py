"""The warehouse's one error."""

from __future__ import annotations


class WarehouseError(Exception):
    """Something the user can act on: one line that names the file or run and the fix."""
