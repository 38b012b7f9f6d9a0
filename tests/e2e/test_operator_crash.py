"""The operator dies after every single write of a heal, and the fleet heals all the same."""

import pytest

from fleet_kubernetes import KubernetesStage
from kube_talk import say
from short_lives_support import dying_after_every_write
from story import Story
from timeline import Timeline

pytestmark = pytest.mark.cluster

DEATHS_MIN = 5  # suspicion, confirmation, grant, its sending, identity of the claims: each is a write of its own


def test_the_operator_is_killed_between_any_two_writes_of_a_heal(stage: KubernetesStage) -> None:
    before = stage.incarnations()
    with dying_after_every_write(writes_max=2) as deaths:
        told = Story(stage, Timeline(say), look_at=str(stage.logs), with_audits=False).go_on()
        died = deaths()

    assert died >= DEATHS_MIN
    assert [one.claim for one in told.proofs if not one.holds] == []
    after = stage.incarnations()
    assert told.loss is not None
    assert after == before | {told.loss.bookie_id: before[told.loss.bookie_id] + 1}
