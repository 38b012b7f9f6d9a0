"""Who gives a command: the name that a person's grant and its traces carry."""

import getpass
import os


def caller() -> str:
    """`NAME@MACHINE`; the number of the user where it has no name, as in most containers."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return f"{name}@{os.uname().nodename}"
