"""Registration payload and repair records (spec/metadata.md#M24, M30)."""

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.metadata import registration, repair
from bookie.metadata.registration import BookieServiceInfo, Endpoint
from bookie.metadata.repair import Underreplicated

JAVA_INFO = bytes.fromhex(
    "32210a06626f6f6b696510ed181a0831302e302e302e35220a626f6f6b69652d727063"
    "321e0a0a6874747073657276657210903f1a07302e302e302e30220468747470"
    "3a060a016b120176"
)


def test_a_registration_is_written_and_read_as_java_does() -> None:
    info = BookieServiceInfo(
        (Endpoint("bookie", "10.0.0.5", 3181, "bookie-rpc"), Endpoint("httpserver", "0.0.0.0", 8080, "http")),
        (("k", "v"),),
    )

    assert registration.dump_service_info(info) == JAVA_INFO
    assert registration.load_service_info(BookieId("any"), JAVA_INFO) == info
    assert info.bookie_endpoint == info.endpoints[0]
    assert info.property("k") == "v"


def test_a_bookie_has_an_endpoint_for_each_port_that_it_has() -> None:
    info = registration.bookie_service("10.0.0.5", 3181, (("k", "v"),), http_port=8080)

    assert info.endpoints[1:] == (Endpoint("httpserver", "10.0.0.5", 8080, "http"),)
    assert registration.bookie_service("10.0.0.5", 3181, (("k", "v"),)).endpoints == info.endpoints[:1]


def test_an_empty_payload_means_the_id_is_the_address() -> None:
    legacy = registration.load_service_info(BookieId("10.0.0.5:3181"), b"")

    assert legacy.bookie_endpoint == Endpoint("bookie", "10.0.0.5", 3181, "bookie-rpc")
    for without_port in ("bookie-0", "h:\u00b2", "h:65536", "h:" + "9" * 5000):
        assert registration.load_service_info(BookieId(without_port), b"").bookie_endpoint is None


def test_a_broken_registration_names_the_bookie() -> None:
    with pytest.raises(errors.BadInput, match="bookie-7"):
        registration.load_service_info(BookieId("bookie-7"), b"\xff\xff")


@pytest.mark.parametrize("field", [b"bookie\x10", b"10.0.0.5", b"bookie-rpc", b"k\x12", b"v"])
def test_a_field_of_a_registration_that_is_no_text_is_refused(field: bytes) -> None:
    """The parser hands out bytes for it, and whoever compared or sorted them stumbled."""
    broken = JAVA_INFO.replace(field, b"\xff" + field[1:])
    assert broken != JAVA_INFO

    with pytest.raises(errors.BadInput, match="is not text"):
        registration.load_service_info(BookieId("bookie-7"), broken)


def test_repair_records_are_javas_text() -> None:
    record = Underreplicated((BookieId("bk1:3181"), BookieId("bk2:3181")), 1700000000000)
    text = b'replica: "bk1:3181"\nreplica: "bk2:3181"\nctime: 1700000000000\n'

    assert repair.load_underreplicated(text) == record
    assert repair.load_underreplicated(b"") == Underreplicated((), -1)
    assert repair.dump_lock("node-1.example") == b'bookieId: "node-1.example"\n'
    assert repair.load_lock(b'bookieId: "node-1.example"\n') == "node-1.example"
    with pytest.raises(errors.BadInput):
        repair.load_underreplicated(b"nonsense: 1")


def test_the_time_of_a_check_is_written_and_read_as_java_does() -> None:
    written = bytes.fromhex("0880d095ffbc31")

    assert repair.dump_check_time(1_700_000_000_000) == written
    assert repair.load_check_time(written) == 1_700_000_000_000
    assert repair.load_check_time(repair.dump_check_time(0)) == 0


@pytest.mark.parametrize(
    "data", [b"", b"\x08", b"\x10\x01", b"1700000000000", b"\x08\x80", b"\x08\x01\x01", b"\x08" + b"\xff" * 9 + b"\x01"]
)
def test_a_record_of_a_check_that_says_no_time_says_none(data: bytes) -> None:
    assert repair.load_check_time(data) is None
