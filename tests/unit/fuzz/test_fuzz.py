"""The short form of `make fuzz`: the same inputs every time, and proof that the fuzzer finds what is there."""

import ast
import struct
from pathlib import Path

import pytest

import fuzz_targets
from bookie.base.errors import BadInput
from bookie.wire import messages, session
from fuzz_engine import Finding, Fuzzer, Target, smaller

INPUTS = 400
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.filterwarnings("ignore:.*(unicode_escape|escape sequence):DeprecationWarning")  # protobuf's own
@pytest.mark.parametrize("name", sorted(fuzz_targets.TARGETS))
def test_any_bytes_are_taken_or_refused_as_they_should_be(name: str) -> None:
    inputs = INPUTS // 8 if name == "settings" else INPUTS

    tally = Fuzzer(fuzz_targets.TARGETS[name], seed=1).run(inputs=inputs)

    assert tally.inputs >= inputs
    assert tally.lines > 1, "nothing of ours was reached"


# Fuzzed under another name: what is handed whole to one of the targets.
REACHED = {
    "loss_signature.load": "notes of losses",
    "textproto.load": "ledger metadata",
    "journal_format.unpack_record": "journals",
    "entry.unpack_header": "digests",
    "entry.unpack_lac": "v3 requests",
    "entry.unpack_ids": "v2 requests",
    "v2.unpack_request": "v2 requests",
    "v2.unpack_response": "v2 answers",
    "requests.unpack_request": "v3 requests",
    "responses.unpack_response": "v3 answers",
}


def loaders() -> set[str]:
    """Every function of the product that makes a value of bytes which others wrote, as `module.function`."""
    found = set()
    for path in (ROOT / "bookie").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith(("load", "unpack", "decode")):
                continue
            given = ast.unparse(node.args.args[0].annotation or ast.Constant("")) if node.args.args else ""
            if any(word in given for word in ("bytes", "memoryview", "Buffer")):
                found.add(f"{'log_format' if path.parent.name == 'entrylog' else path.stem}.{node.name}")
    return {name.replace("format.", "journal_format.") if name.startswith("format.") else name for name in found}


def test_every_reader_of_bytes_is_a_target() -> None:
    text = ast.parse(Path(fuzz_targets.__file__).read_text(encoding="utf-8"))
    named = {ast.unparse(node) for node in ast.walk(text) if isinstance(node, ast.Attribute)}

    found = loaders()

    assert {"cookie.load_cookie", "log_use.unpack", "availability.decode"} <= found
    assert found - named - set(REACHED) == set(), "not fuzzed: name it in tests/support/fuzz_targets.py"
    assert set(REACHED) <= found
    assert {name.replace(" ", "-") for name in REACHED.values()} <= set(fuzz_targets.TARGETS)


def parse(data: bytes) -> None:
    """Wrong in one branch, behind a length and a word that a blind search does not meet."""
    if len(data) < 4:
        raise BadInput("short")
    (size,) = struct.unpack_from(">H", data)
    if size != len(data) - 2:
        raise BadInput("another length")
    if data[2:3] == b"\x07":
        data[size + 2]


def slow(data: bytes) -> None:
    if data[:1] == b"\x01":
        sum(range(40_000_000))


def test_an_error_that_is_not_typed_is_found_and_made_small() -> None:
    target = Target("planted", [b"\x00\x08" + bytes(8)], parse, (BadInput,))

    with pytest.raises(Finding, match="IndexError") as found:
        Fuzzer(target, seed=1).run(inputs=20_000)
    small = smaller(target, found.value)

    assert len(small.data) <= len(found.value.data)
    with pytest.raises(IndexError):
        parse(small.data)


@pytest.mark.slow
def test_an_input_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz_engine.CPU_MS_MAX", 100)
    target = Target("planted", [b"\x00"], slow, ())

    with pytest.raises(Finding, match="ms of CPU"):
        Fuzzer(target, seed=1).run_one(b"\x01")


def test_the_streams_that_the_scanner_begins_with_hold_all_that_a_session_gathers() -> None:
    """What no seed of a fuzzer holds it hardly ever finds: in 18,000 inputs it met no adds of many ledgers."""
    met = set()
    for data in fuzz_targets.TARGETS["scanner"].corpus:
        met |= {type(request) for request in session.ServerSession().receive(data[1:])}

    assert {messages.AddRun, messages.AddMix, messages.ReadRun} <= met
