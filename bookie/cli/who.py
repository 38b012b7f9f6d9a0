"""The name of the person who gives a command, for grants and the records of them."""

import getpass
import os


def caller() -> str:
    """`NAME@MACHINE`; the number of the user where it has no name, as in most containers."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return f"{name}@{os.uname().nodename}"
