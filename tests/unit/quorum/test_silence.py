"""How long a writer has shown no sign of life (spec/bp46.md#T14)."""

from bookie.base.ids import EntryId
from bookie.quorum import silence

GRACE_NS = 100


def test_a_writer_is_dead_when_nothing_changed_for_the_whole_grace() -> None:
    seen = silence.after_look(None, 1_000, EntryId(7), 3)

    later = silence.after_look(seen, 1_099, EntryId(7), 3)
    assert not later.is_over(1_099, grace_ns=GRACE_NS)
    assert silence.after_look(later, 1_100, EntryId(7), 3).is_over(1_100, grace_ns=GRACE_NS)


def test_an_entry_or_a_change_of_the_metadata_is_a_sign_of_life() -> None:
    seen = silence.after_look(None, 1_000, EntryId(7), 3)

    for entry_id, version in ((EntryId(8), 3), (EntryId(7), 4)):
        later = silence.after_look(seen, 1_100, entry_id, version)
        assert not later.is_over(1_199, grace_ns=GRACE_NS)
        assert later.is_over(1_200, grace_ns=GRACE_NS)
