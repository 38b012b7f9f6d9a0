"""JAAS files as Java fleets write them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.runtime import jaas

WRITTEN = """
/* who may write
   and who may read */
Bookie {
  org.apache.zookeeper.server.auth.DigestLoginModule required
    user_writer="a \\"quoted\\" {word};"   // the brokers
    user_reader=plain;                     # the auditor
};
BookKeeper {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="writer" password="x=y";
};
"""


@pytest.fixture
def written(tmp_path: Path) -> str:
    path = tmp_path / "jaas.conf"
    path.write_text(WRITTEN)
    return str(path)


def test_options_of_a_section_are_read(written: str) -> None:
    assert jaas.read_section(written, "Bookie") == {
        "user_writer": Secret('a "quoted" {word};'),
        "user_reader": Secret("plain"),
    }
    assert jaas.read_section(written, "BookKeeper") == {"username": Secret("writer"), "password": Secret("x=y")}


def test_a_section_that_is_not_there_is_named_beside_those_that_are(written: str) -> None:
    with pytest.raises(errors.BadInput, match="no section Client; there are: Bookie, BookKeeper"):
        jaas.read_section(written, "Client")


@pytest.mark.parametrize(
    ("text", "reason"), [("Bookie", "no '{'"), ("Bookie { a=b", "not closed"), ('Bookie { a="b', "line 1")]
)
def test_what_is_no_jaas_file_is_told_with_its_place(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(text)

    with pytest.raises(errors.BadInput, match=reason):
        jaas.read_section(str(path), "Bookie")


@given(st.text(alphabet='ab{};="\\ \n/*#', max_size=40))
def test_no_text_makes_the_reader_stumble(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.conf"
    path.write_text(text)

    with pytest.raises(errors.BadInput):
        jaas.read_section(str(path), "Bookie")
