"""Frames: any chunking gives the same frames; the limits are Java's (spec/wire.md#W1)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.errors import BadInput
from bookie.wire import framing


def split(splitter: framing.FrameSplitter, chunks: list[bytes]) -> list[bytes]:
    return [bytes(view) for chunk in chunks for view in splitter.feed(chunk)]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=20), st.data())
def test_frames_do_not_depend_on_chunks(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(b"".join(framing.frame([payload])) for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(edges) if a < b]

    assert split(framing.FrameSplitter(), chunks) == payloads


def test_a_stream_of_single_bytes_gives_the_frames() -> None:
    stream = b"".join(framing.frame([b"one", b"two"])) + b"".join(framing.frame([b"x"]))

    assert split(framing.FrameSplitter(), [bytes((byte,)) for byte in stream]) == [b"onetwo", b"x"]


def test_the_longest_legal_frame_counts_its_prefix() -> None:
    size = framing.FRAME_LIMIT_BYTES - framing.PREFIX_SIZE
    assert size == 5_242_876  # spec/wire.md#W1: stored; one more is reset

    frames = framing.FrameSplitter().feed(size.to_bytes(4, "big") + bytes(size))

    assert [len(frame) for frame in frames] == [size]


def test_a_frame_beyond_the_limit_is_refused_as_soon_as_its_length_is_seen() -> None:
    with pytest.raises(BadInput, match="5242877"):
        framing.FrameSplitter().feed((5_242_877).to_bytes(4, "big"))


def test_an_empty_frame_is_refused() -> None:
    with pytest.raises(BadInput):
        framing.FrameSplitter().feed(bytes(4))


def test_of_a_chunk_that_ends_a_frame_only_that_frame_is_copied() -> None:
    first, second = b"".join(framing.frame([b"begun"])), b"".join(framing.frame([b"whole"]))
    splitter = framing.FrameSplitter()
    assert splitter.feed(first[:6]) == []
    chunk = first[6:] + second

    begun, whole = splitter.feed(chunk)

    assert begun == b"begun"
    assert whole == b"whole"
    assert whole.obj is chunk


def test_what_is_kept_of_a_chunk_is_the_splitter_s_own() -> None:
    """A caller may read into the same buffer again."""
    stream = b"".join(framing.frame([b"payload"]))
    chunk = bytearray(stream[:6])
    splitter = framing.FrameSplitter()
    assert splitter.feed(chunk) == []
    chunk[:] = bytes(6)

    assert splitter.feed(stream[6:]) == [b"payload"]


def test_frames_of_one_chunk_borrow_it() -> None:
    chunk = b"".join(framing.frame([b"payload"]))

    (view,) = framing.FrameSplitter().feed(chunk)

    assert view.obj is chunk
