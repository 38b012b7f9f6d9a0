"""What is said of files that another version of this program wrote. Pure.

Each format has a number, and what a number means never changes. A newer one is refused before a byte is changed: read
with today's eyes it would be damage, and "damage" is what people throw away.
"""

from bookie.base import errors


def refusal(what: str, found: int, known: int) -> errors.RefusedToStart:
    """Why `what`, of format `found`, is not opened by a program that knows `known`."""
    assert found != known
    if found > known:
        return errors.RefusedToStart(
            f"{what} was written by a newer version of this program (format {found}, this one knows {known});"
            " start that version here, or give this one empty directories"
        )
    return errors.RefusedToStart(
        f"{what} was written by an older version of this program (format {found}, this one knows {known});"
        " let that version hand its ledgers over to other bookies, then give this one empty directories"
    )
