"""The name that a command writes into a record, also where the user has no account, as in our images."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CLI = Path(__file__).resolve().parents[3] / "bookie" / "cli"
NOBODYS_NUMBER = 54321
ASK = "import os; from bookie.cli import who; os.setuid({uid}); print(who.caller())"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without an account")
def test_a_user_without_an_account_is_called_by_its_number() -> None:
    named = ("LOGNAME", "USER", "LNAME", "USERNAME")
    environment = {key: value for key, value in os.environ.items() if key not in named}

    told = subprocess.run(
        [sys.executable, "-c", ASK.format(uid=NOBODYS_NUMBER)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout.startswith(f"{NOBODYS_NUMBER}@")


def test_every_command_asks_for_the_name_in_one_place() -> None:
    """`ledger accept-loss` asked by itself, and ended in a traceback in every pod (uid 10001, KeyError)."""
    found = sorted(path.name for path in CLI.glob("*.py") if "getpass" in path.read_text(encoding="utf-8"))

    assert found == ["who.py"]
