"""The oracle's log: whole lines count, the torn last one does not, garbage is named."""

import pytest

from bookie.base import errors
from bookie.workload import records

ALL = [
    records.Time(1700000000000),
    records.Create(7, "steady", 42),
    records.Ack(7, 0, 100, "00ff00ff00ff00ff"),
    records.Close(7, 0),
    records.Fail(8, "LedgerFenced: by another"),
]


def test_every_record_comes_back_as_it_was_written() -> None:
    lines = [records.dump_record(record) for record in ALL]

    assert list(records.load_records(lines)) == ALL


def test_a_record_torn_at_any_byte_never_was() -> None:
    whole = records.dump_record(ALL[1])
    for length in range(len(records.dump_record(ALL[2]))):
        torn = records.dump_record(ALL[2])[:length]
        lines = [whole, torn] if torn else [whole]

        assert list(records.load_records(lines)) == [ALL[1]]


@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        b"[]\n",
        b'["what",1]\n',
        b'["ack",1]\n',
        b"\n",
        b'["ack",7,"0",3,"d"]\n',
        b'["time",true]\n',
        b'["close",7,null]\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_whole_line_that_is_no_record_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(errors.BadInput, match="line 2"):
        list(records.load_records([records.dump_record(ALL[0]), line]))
