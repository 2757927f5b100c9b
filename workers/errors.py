"""The one error a user is meant to read."""


class UserError(Exception):
    """Something the user can fix: the message names the place and the fix, in one line."""
