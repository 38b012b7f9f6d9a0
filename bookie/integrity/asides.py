"""The order that keeps one bookie out of service: a person took it aside (spec/operator.md#U6).

Its record stands in the metadata store under the bookie's id, so that it binds whichever process comes up under that
id, on any node and any disks: a boot looks at it first of all (`verdict`); a bookie that serves goes on. The record
stays when the bookie comes back into service and says which order was carried out last: of two orders the one that was
asked for later stands, in whichever order they arrive. Never here: a process ended.
"""

import json
from dataclasses import asdict

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.metadata import paths
from bookie.ports.admin import Aside
from bookie.ports.metadata_store import MetadataStore, create_if_missing, find

_TRIES = 5
_WHY_CHARS_MAX = 400


def dump_aside(order: Aside) -> bytes:
    return json.dumps(asdict(order), sort_keys=True).encode()


def load_aside(data: bytes) -> Aside:
    """Return the order in `data`. One that cannot be read keeps the bookie out of service: a person meant something."""
    try:
        fields = json.loads(data)
        is_aside, asked_ms = fields["is_aside"], fields["asked_ms"]
        if type(is_aside) is not bool or type(asked_ms) is not int or not 0 <= asked_ms < 1 << 62:
            raise ValueError("a field has another type")
        return Aside(is_aside, str(fields["why"])[:_WHY_CHARS_MAX], str(fields["order_id"])[:_WHY_CHARS_MAX], asked_ms)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return Aside(True, "the record that takes it aside cannot be read", "", 0)


def checked(order: Aside) -> Aside:
    """Return `order`, or raise BadInput."""
    if not order.order_id or len(order.order_id) > _WHY_CHARS_MAX or not 0 <= order.asked_ms < 1 << 62:
        raise errors.BadInput("order: name the order (order_id) and when it was asked for (asked_ms)")
    if len(order.why) > _WHY_CHARS_MAX:
        raise errors.BadInput(f"order.why is longer than {_WHY_CHARS_MAX} characters: shorten it")
    return order


def is_overtaken(order: Aside, stored: Aside | None) -> bool:
    """Return True when an order that was asked for later was carried out already. Times of equal value are told apart
    by the orders' names, so that of two any caller finds the same one later."""
    return stored is not None and (order.asked_ms, order.order_id) < (stored.asked_ms, stored.order_id)


async def set_aside(store: MetadataStore, root: str, bookie_id: BookieId, order: Aside) -> str:
    """Make `order` the last word about `bookie_id`; return a sentence. Raises GrantRefused (overtaken), BadInput,
    MetadataError: ask again."""
    checked(order)
    data, path = dump_aside(order), paths.aside(root, bookie_id)
    await store.sync(root)
    for _ in range(_TRIES):
        stored = await find(store, path)
        known = load_aside(stored.data) if stored is not None else None
        if is_overtaken(order, known):
            assert known is not None
            raise errors.GrantRefused(
                "overtaken", f"order {known.order_id} was asked for later than {order.order_id}, and was carried out"
            )
        if known == order:
            return _said(bookie_id, order)
        try:
            if stored is None:
                await create_if_missing(store, paths.asides(root), parents=True)
                await store.create(path, data)
            else:
                await store.put(path, data, stored.version)
        except (errors.NodeExists, errors.NodeMissing, errors.VersionConflict, errors.OutcomeUnknown):
            continue  # the look above says what happened
        return _said(bookie_id, order)
    raise errors.MetadataError(f"the order about bookie {bookie_id} changed {_TRIES} times meanwhile")


def _said(bookie_id: BookieId, order: Aside) -> str:
    if order.is_aside:
        return f"bookie {bookie_id} does not come into service at its next boot"
    return f"bookie {bookie_id} comes into service at its next boot"
