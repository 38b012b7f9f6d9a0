"""`bookie ledger losses`: everything that persons gave up in a cluster, as the ledgers' records tell it, and what the
signatures are worth; and the same of one ledger, for `bookie ledger show`.
"""

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bookie.base import text
from bookie.base.ids import LedgerId
from bookie.cli import output, where
from bookie.client import Client
from bookie.client.repair import accepting_loss, reading_losses
from bookie.metadata import recorded_losses
from bookie.metadata.loss_signature import Worth
from bookie.metadata.recorded_losses import RecordedLoss
from bookie.runtime import loss_keys

_COLUMNS = {
    "ledger": "LEDGER",
    "act": "ACT",
    "said": "SIGNATURE",
    "what": "ENTRIES",
    "when": "WHEN",
    "byWhom": "BY",
    "why": "REASON",
}


def add_parser(verbs: Any) -> None:
    """Add the verb to those of `bookie ledger`."""
    made = output.add_verb(
        verbs,
        "losses",
        "list what persons gave up, of all ledgers, and who signed it (`accept-loss`)",
        where.add_cluster,
        output.add_json,
        run=run,
    )
    add_trusted(made)


def add_trusted(verb: argparse.ArgumentParser) -> None:
    """Add --trusted, and have it judged first."""
    verb.add_argument(
        "--trusted",
        type=Path,
        action="append",
        metavar="FILE",
        help="public key (Ed25519, PEM), or a folder of them: end with 1 unless one of them signed each accepted loss"
        " (may be repeated)",
    )
    verb.set_defaults(judge=_judge, trusted_keys=None)


def _judge(arguments: argparse.Namespace) -> None:
    """Put the keys, which a pipe gives only once, beside the arguments. Raises BadInput."""
    if arguments.trusted:
        arguments.trusted_keys = loss_keys.trusted_keys(arguments.trusted)


async def run(arguments: argparse.Namespace) -> int:
    async with where.client(arguments) as client:
        return await survey(arguments, client)


async def survey(arguments: argparse.Namespace, client: Client) -> int:
    """List the losses of all ledgers; return the exit code: what was not seen is not called signed."""
    rows: list[dict[str, object]] = []
    found: list[RecordedLoss] = []
    unreadable = looked_at = 0
    with output.progress("ledgers looked at") as count:
        batches = reading_losses.of_cluster(client.shared.ledgers, arguments.trusted_keys)
        async with contextlib.aclosing(batches) as stream:
            async for batch in stream:
                for each in batch:
                    found += each.losses
                    rows += [row(each.ledger_id, loss) for loss in each.losses]
                    if each.problem:
                        unreadable += 1
                        output.tell(f"ledger {each.ledger_id}: its record cannot be read: {each.problem}")
                looked_at += len(batch)
                count(len(batch))
    if arguments.json:
        output.rows(arguments, rows, {})
    elif rows:
        output.rows(arguments, [{**each, **_words(loss)} for each, loss in zip(rows, found, strict=True)], _COLUMNS)
    output.tell(
        f"{len(found)} accepted losses in {looked_at} ledgers"
        + (f"; {unreadable} records cannot be read, and may tell of more" if unreadable else "")
        + ("; no signature was checked: --trusted FILE" if found and arguments.trusted_keys is None else "")
    )
    return exit_code(arguments, found) or output.EXIT_OF[output.NOT_KNOWN if unreadable else output.WHOLE]


def exit_code(arguments: argparse.Namespace, found: Sequence[RecordedLoss]) -> int:
    """Return 1 where the command was told whom to trust, and one of these is not signed by them; else 0."""
    is_asked = arguments.trusted_keys is not None
    return int(is_asked and any(each.signature.worth not in (Worth.TRUSTED, Worth.NOT_IN_FORCE) for each in found))


def row(ledger_id: LedgerId, loss: RecordedLoss) -> dict[str, object]:
    """Return one loss for JSON."""
    signature = loss.signature
    return {
        "ledger": ledger_id,
        "act": loss.act,
        "entries": [{"first": first, "last": last} for first, last in loss.runs],
        "lastEntry": loss.last_entry,
        "by": loss.by,
        "reason": loss.reason,
        "atMs": loss.at_ms or None,
        "signature": {
            "worth": signature.worth.value,
            "key": signature.key or None,
            "name": signature.name or None,
            "text": signature.text,
        },
    }


def line(loss: RecordedLoss) -> str:
    """Return one loss in a line."""
    words = _words(loss)
    return f"{words['said']}: {words['what']}, {words['when']}, by {words['byWhom']} ({words['why']})"


def _words(loss: RecordedLoss) -> dict[str, str]:
    """Return one loss for a person. What somebody wrote stands last, cut, and without gaps: it must not look like what
    we say of his signature."""
    if loss.act == recorded_losses.DECLARED:
        what = accepting_loss.ranges(loss.runs)
    else:
        what = "its end" if loss.last_entry is None else f"what was behind entry {loss.last_entry}"
    by, why = (text.one_line(" ".join(each.split()) or "-") for each in (loss.by, loss.reason))
    return {"said": loss.signature.text, "what": what, "when": output.time_of(loss.at_ms), "byWhom": by, "why": why}
