"""Errors that are the user's to fix."""

from __future__ import annotations


class UserError(Exception):
    """A mistake in what the user asked for; the message is one line that names the place and the fix."""
