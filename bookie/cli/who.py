"""The name of the person who gives a command, for grants and the records of them."""

import getpass
import os


def user() -> str:
    """The user of this process; its number where it has no name, as in a container without an account for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def caller() -> str:
    """`USER@MACHINE`."""
    return f"{user()}@{os.uname().nodename}"
