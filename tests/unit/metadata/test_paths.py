"""Paths, layout and URIs (spec/metadata.md#M1 to M9, M31)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.metadata import paths
from bookie.metadata.paths import LayoutKind


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/00/0000/L0000"),
        (9999, "/00/0000/L9999"),
        (10000, "/00/0001/L0000"),
        (12345, "/00/0001/L2345"),
        (2147483646, "/21/4748/L3646"),
        (2147483647, "/000/0000/0021/4748/L3647"),
        (4294967296, "/000/0000/0042/9496/L7296"),
        (2**63 - 1, "/922/3372/0368/5477/L5807"),
    ],
)
def test_ledgers_stand_where_java_looks_for_them(ledger_id: int, path: str) -> None:
    assert paths.ledger_path("/ledgers", LedgerId(ledger_id)) == "/ledgers" + path
    assert paths.parse_ledger_path("/ledgers", "/ledgers" + path) == ledger_id


def test_other_layouts_have_their_own_paths() -> None:
    twelve = LedgerId(12345)

    assert paths.ledger_path("/r", twelve, LayoutKind.LONG_HIERARCHICAL) == "/r/000/0000/0000/0001/L2345"
    assert paths.ledger_path("/r", twelve, LayoutKind.FLAT) == "/r/L0000012345"
    assert paths.ledger_path("/r", twelve, LayoutKind.LEGACY) == "/r/00/0001/L2345"


@settings(deadline=None)  # a loaded machine is no defect
@given(st.integers(0, 2**63 - 1), st.sampled_from([LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL]))
def test_every_ledger_path_leads_back_to_its_id(ledger_id: int, kind: LayoutKind) -> None:
    assert paths.parse_ledger_path("/a/b", paths.ledger_path("/a/b", LedgerId(ledger_id), kind)) == ledger_id


@pytest.mark.parametrize("path", ["/r/00/0000", "/r/00/0000/0001", "/r/x/y/Lz", "/r/999/9999/9999/9999/L9999", "/r"])
def test_other_paths_are_no_ledgers(path: str) -> None:
    with pytest.raises(errors.BadInput):
        paths.parse_ledger_path("/r", path)


def test_the_layout_record_is_javas() -> None:
    java = bytes.fromhex(
        "320a6f72672e6170616368652e626f6f6b6b65657065722e6d6574612e48696572617263686963616c4c65646765724d616e61676572466163746f"
        "72793a31"
    )

    assert paths.dump_layout(LayoutKind.HIERARCHICAL) == java
    assert paths.load_layout(java) is LayoutKind.HIERARCHICAL
    assert paths.load_layout(b"1\nflat:1") is LayoutKind.FLAT
    for broken in (b"", b"3\nx:1", b"2\n", b"2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1", java + b"2"):
        with pytest.raises(errors.BadInput):
            paths.load_layout(broken)


def test_service_uris_are_parsed() -> None:
    parsed = paths.parse_uri("zk+hierarchical://a:2181;b:2182/some/ledgers")

    assert parsed == paths.MetadataUri(LayoutKind.HIERARCHICAL, "a:2181,b:2182", "/some/ledgers")
    assert paths.parse_uri("zk://a:2181/ledgers").kind is None
    assert paths.parse_uri("ZK+null://a:2181/ledgers").kind is None
    assert paths.parse_uri("zk://a; [2001:db8::7]:2181,b_2:1/ledgers").hosts == "a,[2001:db8::7]:2181,b_2:1"


@pytest.mark.parametrize(
    "uri",
    [
        *(
            "",
            "a:2181",
            "zk://a:2181",
            "zk://a:2181/",
            "zk://a:2181/ledgers/",
            "zk+odd://a/ledgers",
            "etcd://a/ledgers",
        ),
        *("zk://a:99999/ledgers", "zk://a:x/ledgers", "zk://a:/ledgers", "zk://a:0/l", "zk://;/l", "zk://a b:1/l"),
    ],
)
def test_an_unusable_uri_is_refused_with_an_example(uri: str) -> None:
    with pytest.raises(errors.BadInput, match="zk\\+hierarchical://"):
        paths.parse_uri(uri)


def test_what_may_be_a_password_in_a_uri_is_not_shown() -> None:
    with pytest.raises(errors.BadInput, match="takes no user there") as refused:
        paths.parse_uri("zk://user:hunter2@a:2181/ledgers")

    assert "hunter2" not in str(refused.value)


def test_repair_records_stand_where_java_looks_for_them() -> None:
    below = paths.underreplicated_ledgers("/r")

    assert below == "/r/underreplication/ledgers"
    assert paths.parse_underreplicated(f"{below}/0000/0000/0000/3039/urL0000012345") == 12345
    assert paths.parse_underreplicated(f"{below}/7fff/ffff/ffff/ffff/urL9223372036854775807") == 2**63 - 1


def test_only_directories_of_the_layout_belong_to_the_ledger_tree() -> None:
    assert paths.tree_depth(LayoutKind.HIERARCHICAL, "00") == 2
    assert paths.tree_depth(LayoutKind.HIERARCHICAL, "000") == 4
    assert paths.tree_depth(LayoutKind.LONG_HIERARCHICAL, "00") == 0
    for other in ("available", "LAYOUT", "0", "0000", "idgen", "²²"):
        assert paths.tree_depth(LayoutKind.HIERARCHICAL, other) == 0


@pytest.mark.parametrize("name", ["00", "000", "L0000000007"])
def test_a_root_that_holds_ledgers_of_any_layout_is_in_use(name: str) -> None:
    assert paths.holds_ledgers(["available", name])
    assert not paths.holds_ledgers(["available", "LAYOUT", "idgen"])


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("zk://a:2181;b:2181/l", "zk+hierarchical://b/l", True),
        ("zk://A/l", "zk://a:2181,c:1/l", True),
        ("zk://a:2181/l", "zk://a:2182/l", False),
        ("zk://a/l", "zk://a/m", False),
        ("zk://a/l", "zk://b/l", False),
        ("zk://[::1]:2181/l", "zk://[::1]/l", True),
    ],
)
def test_two_uris_name_one_cluster_where_they_share_a_server_and_the_root(
    one: str, other: str, *, is_same: bool
) -> None:
    assert paths.is_same_cluster(one, other) is is_same
