"""What a bookie's session hands out, request by request again."""

from collections.abc import Iterable

from bookie.wire import availability, runs
from bookie.wire.messages import AddMix, AddRequest, AddRun, Incoming, ReadRequest, ReadRun, Request


def one_by_one(incoming: Iterable[Incoming]) -> list[Request]:
    """Runs taken apart; everything else as it is."""
    out: list[Request] = []
    for item in incoming:
        if isinstance(item, ReadRun):
            ids = zip(item.txns, item.entry_ids, strict=True)
            out += [ReadRequest(txn, item.version, item.ledger_id, entry_id) for txn, entry_id in ids]
            continue
        if isinstance(item, AddMix):
            out += one_by_one(runs.take_apart(item, range(len(item.txns))))
            continue
        if not isinstance(item, AddRun):
            out.append(item)
            continue
        flags = item.is_recovery, item.is_deferred, item.is_high_priority
        for txn, entry_id, body in zip(item.txns, item.entry_ids, item.bodies, strict=True):
            out.append(AddRequest(txn, item.version, item.ledger_id, entry_id, item.master_key, body, *flags))
    return out


def encode_runs(pairs: Iterable[tuple[int, int]]) -> bytes:
    """The list of entries with just these runs, as a bookie encodes it."""
    encoder = availability.Encoder()
    encoder.add(pairs)
    return encoder.finish()
