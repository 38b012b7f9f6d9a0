"""Every rule of the list is broken on purpose, and each test that is named as its proof goes red (`make mutants`)."""

from __future__ import annotations

import make_mutants
import mutants_support


def test_every_mutant_of_the_list_is_killed() -> None:
    found = list(make_mutants.outcomes(mutants_support.mutants(), jobs=2, timeout_s=600))

    assert len(found) > 400
    assert [each.facts() for each in found if each.word not in make_mutants.GOOD] == []
