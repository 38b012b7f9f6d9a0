"""The short way of adds and their answers against the codecs, which are the plain version of it."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.client.net import add_frames
from bookie.client.net.add_frames import AddFrames
from bookie.wire import v2, v3
from bookie.wire.digest import Digest, DigestType
from bookie.wire.messages import AddRequest, AddResponse

ids = st.integers(0, 2**63 - 1)
kinds = [(2, False, False), (2, True, False), (3, False, False), (3, True, False), (3, False, True)]


def test_the_worked_hex_of_the_reference_is_what_we_expect() -> None:
    """Wire 14: v3 and v2 add responses, without their length prefixes."""
    assert add_frames.done(3, 1, LedgerId(7), EntryId(1)).hex() == "0a060803100218011000aa0606080010071801"
    assert add_frames.done(2, 0, LedgerId(7), EntryId(1)).hex() == f"0201000000000000{7:016x}{1:016x}"


@settings(deadline=None)
@given(
    st.sampled_from(kinds),
    st.sampled_from(DigestType),
    ids,
    ids,
    st.integers(1, 2**64 - 1),
    st.lists(st.binary(max_size=300), min_size=1, max_size=3),
)
def test_frames_and_answers_are_those_of_the_codecs(
    kind: tuple[int, bool, bool], digest_type: DigestType, ledger: int, first: int, txn: int, payloads: list[bytes]
) -> None:
    version, is_recovery, is_deferred = kind
    digest = Digest(digest_type, b"secret")
    ledger_id = LedgerId(ledger)
    next_txn = itertools.repeat(txn).__next__
    frames = AddFrames(ledger_id, digest, next_txn, version=version, is_recovery=is_recovery, is_deferred=is_deferred)
    pack_request, unpack_response = (
        (v3.pack_request, v3.unpack_response) if version == 3 else (v2.pack_request, v2.unpack_response)
    )

    for number, payload in enumerate(payloads * 2):
        entry_id = EntryId((first + number) % 2**63)
        frame, done = frames.pack(entry_id, -1, 5, payload)

        body = b"".join(digest.seal(ledger_id, entry_id, -1, 5, payload))
        request = AddRequest(
            txn, version, ledger_id, entry_id, digest.master_key, body, is_recovery, is_deferred, is_recovery
        )
        assert frame == b"".join(pack_request(request))
        assert done == add_frames.done(version, txn, ledger_id, entry_id)
        said = AddResponse(txn if version == 3 else 0, version, Status.EOK, ledger_id, entry_id)
        assert unpack_response(memoryview(done)) == said


def test_payloads_of_many_sizes_do_not_fill_the_memory() -> None:
    frames = AddFrames(LedgerId(1), Digest(DigestType.CRC32C, b""), itertools.count(1).__next__, version=3)

    for size in range(1_000):
        frames.pack(EntryId(size), -1, 0, bytes(size))

    assert len(frames._templates) <= add_frames._TEMPLATES_MAX
