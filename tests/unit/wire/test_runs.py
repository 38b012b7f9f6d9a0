"""Adds and reads in runs: the scanners read what the general parsers read, and leave nothing out."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wire_support
from bookie.base.errors import BadInput, Status
from bookie.base.ids import EntryId, LedgerId
from bookie.wire import runs, session, v2, v3
from bookie.wire.messages import (
    ADDS_MAX,
    READS_MAX,
    AddMix,
    AddRequest,
    AddResponse,
    AddRun,
    AddRunResponse,
    Buffer,
    ForceRequest,
    Incoming,
    ReadRequest,
    ReadResponse,
    ReadRun,
    ReadRunResponse,
    Request,
)

KEYS = (b"k" * 20, b"l" * 20, b"short", b"")
ids = st.integers(0, 2**63 - 1) | st.integers(0, 300)


def entry(ledger_id: int, entry_id: int, payload: bytes) -> bytes:
    return ledger_id.to_bytes(8, "big", signed=True) + entry_id.to_bytes(8, "big", signed=True) + bytes(16) + payload


@st.composite
def adds(draw: st.DrawFn, version: int) -> AddRequest:
    ledger_id, entry_id = draw(st.sampled_from((1, 2, 2**40)) | ids), draw(ids)
    key = draw(st.sampled_from(KEYS if version == 3 else KEYS[:2]))
    request = AddRequest(0, version, LedgerId(ledger_id), EntryId(entry_id), key, b"")
    request.body = entry(ledger_id, entry_id, draw(st.binary(max_size=200)))
    if draw(st.integers(0, 3)) == 0:
        request.is_recovery, request.is_high_priority = draw(st.booleans()), draw(st.booleans())
        request.is_deferred = version == 3 and draw(st.booleans())
    return request


@st.composite
def reads(draw: st.DrawFn, version: int) -> ReadRequest:
    ledger_id, entry_id = draw(st.sampled_from((1, 2, 2**40)) | ids), draw(ids | st.just(-1))
    request = ReadRequest(0, version, LedgerId(ledger_id), EntryId(entry_id))
    match draw(st.integers(0, 5)):
        case 0:
            request.master_key, request.is_fencing = KEYS[0], True
        case 1 if version == 3:
            request.previous_lac, request.timeout_ms = draw(ids), 5
        case 2:
            request.is_high_priority = True
    return request


def others(version: int) -> st.SearchStrategy[Request]:
    return reads(version) | st.builds(lambda: ForceRequest(0, 3, LedgerId(1))) if version == 3 else reads(version)


def pack(requests: list[Request], version: int) -> bytes:
    codec = v3 if version == 3 else v2
    for txn, request in enumerate(requests, 1):
        request.txn = txn * 999_983 if version == 3 else 0
    return b"".join(b"".join(codec.pack_request(request)) for request in requests)


def is_plain(request: Request) -> bool:
    if not isinstance(request, ReadRequest):
        return isinstance(request, AddRequest)
    is_long = request.version == 3 and request.entry_id < 0  # a varint of ten bytes
    return not any((request.is_fencing, request.previous_lac is not None, request.is_high_priority, is_long))


def by_ledger(requests: list[Request]) -> list[object]:
    """What order must be kept: that of one ledger's adds, or reads, between two requests of another kind."""
    out: list[object] = []
    for kind, group in itertools.groupby(requests, key=lambda request: (type(request), is_plain(request))):
        together = list(group)
        if not kind[1] and kind[0] is not AddRequest:
            out += together
            continue
        ledgers: dict[LedgerId, list[Request]] = {}
        for request in together:
            assert isinstance(request, AddRequest | ReadRequest)
            ledgers.setdefault(request.ledger_id, []).append(request)
        out.append(sorted(ledgers.items()))
    return out


@pytest.mark.parametrize("version", [2, 3])
@given(data=st.data())
def test_runs_are_the_adds_that_were_sent_in_their_order_however_the_bytes_are_cut(
    version: int, data: st.DataObject
) -> None:
    requests: list[Request] = data.draw(st.lists(adds(version) | others(version), min_size=1, max_size=25))
    stream = pack(requests, version)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))

    reader = session.ServerSession()
    incoming: list[Incoming] = []
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        incoming += reader.receive(stream[start:end])

    assert by_ledger(wire_support.one_by_one(incoming)) == by_ledger(requests)


@given(st.data())
def test_a_damaged_frame_is_read_as_the_general_parser_reads_it(data: st.DataObject) -> None:
    request = data.draw(adds(3) | reads(3))
    frame = bytearray(pack([request], 3))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    if frame[4] != 0x0A:
        return  # another protocol

    def outcome(read: object) -> object:
        assert callable(read)
        try:
            return read()
        except BadInput:
            return BadInput

    general = outcome(lambda: v3.unpack_request(memoryview(bytes(frame))[4:]))
    scanned = outcome(lambda: wire_support.one_by_one(session.ServerSession().receive(bytes(frame)))[0])

    assert scanned == general


@pytest.mark.parametrize("version", [2, 3])
def test_every_prefix_of_adds_waits_for_the_rest(version: int) -> None:
    requests: list[Request] = [
        AddRequest(0, version, LedgerId(7), EntryId(number), KEYS[0], entry(7, number, b"payload"))
        for number in range(3)
    ]
    stream = pack(requests, version)

    for cut in range(len(stream)):
        reader = session.ServerSession()
        incoming = [*reader.receive(stream[:cut]), *reader.receive(stream[cut:])]
        assert wire_support.one_by_one(incoming) == requests


def test_adds_of_one_chunk_and_ledger_are_one_run() -> None:
    requests: list[Request] = [
        AddRequest(0, 3, LedgerId(7 + number % 2), EntryId(number), KEYS[0], entry(7 + number % 2, number, b"x"))
        for number in range(10)
    ]

    incoming = session.ServerSession().receive(pack(requests, 3))

    assert [len(run.bodies) for run in incoming if isinstance(run, AddRun)] == [5, 5]


def test_an_add_with_another_key_does_not_join_the_run() -> None:
    requests: list[Request] = [
        AddRequest(0, 3, LedgerId(7), EntryId(number), key, entry(7, number, b"x"))
        for number, key in enumerate((KEYS[0], KEYS[1], KEYS[0]))
    ]

    incoming = session.ServerSession().receive(pack(requests, 3))

    assert [run.master_key for run in incoming if isinstance(run, AddRun)] == [KEYS[0], KEYS[1], KEYS[0]]


def test_an_add_that_is_not_plain_comes_behind_the_mix() -> None:
    gathered = runs.Runs()
    for ledger_id in (1, 2):
        one = gathered.mix_of(3, LedgerId(ledger_id)) or gathered.adds_of(3, LedgerId(ledger_id), KEYS[0])
        assert one is not None
        one.txns.append(ledger_id)
        one.entry_ids.append(EntryId(0))
        one.bodies.append(b"")
        if isinstance(one, AddMix):
            one.ledger_ids.append(LedgerId(ledger_id))
            one.master_keys.append(KEYS[0])

    before = list(gathered.put_add(AddRequest(3, 3, LedgerId(2), EntryId(1), KEYS[0], b"", is_recovery=True)))

    assert [one.txns for one in before if isinstance(one, AddRun | AddMix)] == [[1, 2]]
    assert [one.txns for one in gathered.take() if isinstance(one, AddRun | AddMix)] == [[3]]


@given(
    st.sampled_from([2, 3]),
    st.sampled_from([Status.EOK, Status.EFENCED, Status.EIO]),
    ids,
    st.lists(st.tuples(ids, ids), min_size=1, max_size=20),
)
def test_answers_to_a_run_are_the_answers_to_its_adds(
    version: int, status: Status, ledger_id: int, pairs: list[tuple[int, int]]
) -> None:
    txns = [txn if version == 3 else 0 for txn, _ in pairs]
    entry_ids = [EntryId(entry_id) for _, entry_id in pairs]
    run = AddRun(version, LedgerId(ledger_id), KEYS[0], False, False, False, txns, entry_ids, [b""] * len(pairs))

    packed = b"".join(session.pack_response(AddRunResponse(version, status, run)))

    alone = [
        AddResponse(txn, version, status, LedgerId(ledger_id), entry)
        for txn, entry in zip(txns, entry_ids, strict=True)
    ]
    assert packed == b"".join(b"".join(session.pack_response(answer)) for answer in alone)


@given(
    st.sampled_from([2, 3]),
    st.sampled_from([Status.EOK, Status.EUA]),
    ids,
    st.none() | ids,
    st.lists(st.tuples(ids, ids, st.binary(max_size=300)), min_size=1, max_size=20),
)
def test_answers_to_a_run_of_reads_are_the_answers_to_its_reads(
    version: int, status: Status, ledger_id: int, lac: int | None, reads_: list[tuple[int, int, bytes]]
) -> None:
    txns = [txn if version == 3 else 0 for txn, _, _ in reads_]
    entry_ids = [EntryId(entry_id) for _, entry_id, _ in reads_]
    bodies: list[Buffer] = [body for _, _, body in reads_] if status is Status.EOK else []
    lac = lac if version == 3 and status is Status.EOK else None
    answer = ReadRunResponse(version, status, LedgerId(ledger_id), txns, entry_ids, bodies, lac)

    packed = b"".join(session.pack_response(answer))

    alone = [
        ReadResponse(txn, version, status, LedgerId(ledger_id), entry_id, body if status is Status.EOK else None, lac)
        for txn, entry_id, (_, _, body) in zip(txns, entry_ids, reads_, strict=True)
    ]
    assert packed == b"".join(b"".join(session.pack_response(one)) for one in alone)


def test_a_read_never_passes_an_add_nor_an_add_a_read() -> None:
    def add(number: int) -> AddRequest:
        return AddRequest(0, 3, LedgerId(7), EntryId(number), KEYS[0], entry(7, number, b"x"))

    def read(number: int) -> ReadRequest:
        return ReadRequest(0, 3, LedgerId(7), EntryId(number))

    incoming = session.ServerSession().receive(pack([add(0), add(1), read(0), read(1), add(2), read(2)], 3))

    assert [(type(run), run.entry_ids) for run in incoming if isinstance(run, AddRun | ReadRun)] == [
        (AddRun, [0, 1]),
        (ReadRun, [0, 1]),
        (AddRun, [2]),
        (ReadRun, [2]),
    ]


def test_a_run_of_reads_is_bounded() -> None:
    requests: list[Request] = [ReadRequest(0, 3, LedgerId(7), EntryId(number)) for number in range(READS_MAX * 2 + 1)]

    incoming = session.ServerSession().receive(pack(requests, 3))

    assert [len(run.txns) for run in incoming if isinstance(run, ReadRun)] == [READS_MAX, READS_MAX, 1]
    assert wire_support.one_by_one(incoming) == requests


def add_to(version: int, ledger_id: int, entry_id: int) -> AddRequest:
    body = entry(ledger_id, entry_id, b"")
    return AddRequest(0, version, LedgerId(ledger_id), EntryId(entry_id), KEYS[0], body)


@pytest.mark.parametrize("version", [2, 3])
def test_adds_to_many_ledgers_in_turn_are_a_mix(version: int) -> None:
    """The first of them began a run, which had a way of its own for its three adds."""
    requests: list[Request] = [add_to(version, number % 10, number // 10) for number in range(30)]

    (mix,) = session.ServerSession().receive(pack(requests, version))

    assert isinstance(mix, AddMix)
    assert mix.ledger_ids == [0, 0, 0, *[*range(1, 10)] * 3]
    assert mix.entry_ids == [0, 1, 2, *(number // 9 for number in range(27))]
    assert by_ledger(wire_support.one_by_one([mix])) == by_ledger(requests)


@pytest.mark.parametrize("version", [2, 3])
def test_a_run_that_is_not_short_stays_one_beside_a_mix(version: int) -> None:
    requests: list[Request] = [add_to(version, number % 10, number // 10) for number in range(30)]
    requests.append(add_to(version, 0, 3))

    run, mix = session.ServerSession().receive(pack(requests, version))

    assert isinstance(run, AddRun)
    assert isinstance(mix, AddMix)
    assert (run.ledger_id, run.entry_ids) == (0, [0, 1, 2, 3])
    assert mix.ledger_ids == [*range(1, 10)] * 3
    assert mix.entry_ids == [number // 9 for number in range(27)]


@pytest.mark.parametrize("flag", ["is_recovery", "is_deferred", "is_high_priority", "version"])
def test_a_run_that_is_not_plain_never_joins_a_mix(flag: str) -> None:
    gathered = runs.Runs()
    first = add_to(3, 1, 0)
    setattr(first, flag, 2 if flag == "version" else True)
    list(gathered.put_add(first))
    mix = gathered.mix_of(3, LedgerId(2))
    assert mix is not None
    for column, value in (
        (mix.ledger_ids, 2),
        (mix.master_keys, KEYS[0]),
        (mix.txns, 1),
        (mix.entry_ids, 0),
        (mix.bodies, b""),
    ):
        column.append(value)  # type: ignore[attr-defined]

    assert [(type(one), len(one.txns)) for one in gathered.take() if isinstance(one, AddRun | AddMix)] == [
        (AddRun, 1),
        (AddMix, 1),
    ]


def test_adds_to_few_ledgers_are_runs() -> None:
    requests: list[Request] = [
        AddRequest(0, 3, LedgerId(number % 3), EntryId(number // 3), KEYS[0], entry(number % 3, number // 3, b""))
        for number in range(24)
    ]

    incoming = session.ServerSession().receive(pack(requests, 3))

    assert [(type(run), len(run.txns)) for run in incoming if isinstance(run, AddRun | AddMix)] == [(AddRun, 8)] * 3


def test_a_mix_is_bounded_and_ends_before_anything_else() -> None:
    def add(number: int, *, is_recovery: bool = False) -> AddRequest:
        ledger_id = number % 1_000
        ids_ = LedgerId(ledger_id), EntryId(number // 1_000)
        return AddRequest(0, 3, *ids_, KEYS[0], entry(*ids_, b""), is_recovery=is_recovery)

    for last in (add(7_005, is_recovery=True), ReadRequest(0, 3, LedgerId(5), EntryId(0))):
        requests: list[Request] = [*(add(number) for number in range(3 * ADDS_MAX)), last]
        incoming = list(session.ServerSession().receive(pack(requests, 3)))

        counts = [len(one.txns) for one in incoming if isinstance(one, AddMix)]
        assert max(counts) == ADDS_MAX
        assert wire_support.one_by_one(incoming[-1:]) == [last]
        assert by_ledger(wire_support.one_by_one(incoming)) == by_ledger(requests)
        assert sum(len(one.txns) for one in incoming if isinstance(one, AddMix | AddRun | ReadRun)) == len(requests)


@given(
    st.sampled_from([2, 3]),
    st.sampled_from([Status.EOK, Status.EFENCED, Status.EIO]),
    st.lists(st.tuples(ids, ids, ids), min_size=1, max_size=20),
)
def test_answers_to_a_mix_are_the_answers_to_its_adds(
    version: int, status: Status, adds_: list[tuple[int, int, int]]
) -> None:
    txns = [txn if version == 3 else 0 for txn, _, _ in adds_]
    ledger_ids = [LedgerId(ledger_id) for _, ledger_id, _ in adds_]
    entry_ids = [EntryId(entry_id) for _, _, entry_id in adds_]
    blank = [b""] * len(adds_)
    mix = AddMix(version, ledger_ids, blank, txns, entry_ids, blank)

    packed = b"".join(session.pack_response(AddRunResponse(version, status, mix)))

    columns = zip(txns, ledger_ids, entry_ids, strict=True)
    alone = [AddResponse(txn, version, status, ledger_id, entry_id) for txn, ledger_id, entry_id in columns]
    assert packed == b"".join(b"".join(session.pack_response(answer)) for answer in alone)
