"""Where bookies stand, from settings and from Pulsar's record (metadata 12)."""

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.metadata import locations


def test_the_record_of_pulsar_is_read_by_id_and_by_host() -> None:
    data = b"""{"default": {"b1:3181": {"rack": "rack1", "hostname": "h1"}, "b2:3181": {"rack": "/east/rack2"}},
                "other": {"b3:3181": {"rack": "/"}, "b4:3181": {"rack": ""}, "b5:3181": {}}}"""

    assert locations.load_rack_mapping(data) == {"b1:3181": "/rack1", "h1": "/rack1", "b2:3181": "/east/rack2"}
    assert locations.load_rack_mapping(b"") == {}


@pytest.mark.parametrize("data", [b"nonsense", b"[]", b'{"a": 1}', b'{"a": {"b": 2}}', b"\xff", b"[" * 100_000])
def test_anything_else_is_refused_in_one_sentence(data: bytes) -> None:
    with pytest.raises(errors.BadInput, match="the rack mapping is not the JSON"):
        locations.load_rack_mapping(data)


def test_a_mapping_goes_before_what_a_bookie_says_of_itself() -> None:
    mapping = {"b1:3181": "/rack1", "h2": "/rack2"}

    def found(bookie: str, host: str) -> str:
        return locations.location_of(BookieId(bookie), host, "own", mapping)

    assert [found("b1:3181", "h9"), found("b2:3181", "h2"), found("b3:3181", "h3")] == ["/rack1", "/rack2", "own"]
