"""The name of the person who runs a command, for grants and their records."""

import getpass
import os


def user() -> str:
    """Return the user of this process; the user's number where there is no name, as in a container without an
    account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def caller() -> str:
    """Return `USER@MACHINE`."""
    return f"{user()}@{os.uname().nodename}"
