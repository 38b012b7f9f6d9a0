"""A fleet of its own that is deleted with its data, which takes two words; one alone keeps all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from fleet_kubernetes import KubernetesStage
from fleet_support import Fleet, operator_away
from scenario_support import as_the_operator_lives, own_fleet

pytestmark = pytest.mark.cluster

NAME = "going"


@pytest.fixture(scope="module")
def own(stage: KubernetesStage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with own_fleet(stage, tmp_path_factory.mktemp(NAME), NAME, replicas=3) as made:
        yield made


def deletion(fleet: Fleet) -> dict[str, Any]:
    return fleet.status().get("deletion") or {}


def second_word(fleet: Fleet) -> str:
    """The command that the status prints, which names this very resource."""
    told = fleet.sees("what would be lost, and what it waits for", lambda: deletion(fleet).get("waitingFor"))
    (command,) = re.findall(r"`(kubectl [^`]*)`", told)
    return str(command)


def test_data_goes_with_the_resource_only_when_it_was_said_twice(
    own: Fleet, person: Fleet, request: pytest.FixtureRequest
) -> None:
    fleet = own
    fleet.settled()
    claims, lives, others = fleet.claim_uids(), fleet.incarnations(), person.claim_uids()
    with as_the_operator_lives(request), fleet.writing():
        fleet.edits(lifecycle={"deletionPolicy": "Delete"})
        command = second_word(fleet)
        told = deletion(fleet)
        assert (told["bookies"], told["claims"], told["going"]) == (3, len(claims), 0), told
        assert "DeletionDeletesData" in fleet.types("kubectl get events.events.k8s.io")

        resource = fleet.resource()
        fleet.types("kubectl delete bookiecluster $NAME")
        fleet.sees("all pods to go", lambda: not fleet.pods())
        assert fleet.claim_uids() == claims, "one word alone deletes nothing"
        fleet.applies({key: resource[key] for key in ("apiVersion", "kind", "spec")})
        fleet.settled()
        assert (fleet.claim_uids(), fleet.incarnations()) == (claims, lives)

        fleet.types(command)  # the second word, for the resource that is gone
        fleet.sees("it to be told of", lambda: "which is another one" in deletion(fleet).get("waitingFor", ""))
        assert deletion(fleet)["going"] == 0
        fleet.types(second_word(fleet))
        fleet.sees("all claims to be going", lambda: deletion(fleet).get("going") == len(claims))
        fleet.edits(lifecycle={"deletionPolicy": "Retain"})
        fleet.sees("no claim to be going", lambda: not deletion(fleet))
        assert not any(claim["metadata"].get("ownerReferences") for claim in fleet.claims().values())
        fleet.edits(lifecycle={"deletionPolicy": "Delete"})
        fleet.sees("all claims to be going", lambda: deletion(fleet).get("going") == len(claims))
    assert fleet.claim_uids() == claims

    with operator_away():  # Kubernetes' garbage collection needs none
        fleet.types("kubectl delete bookiecluster $NAME")
        fleet.sees("all pods to go", lambda: not fleet.pods())
        fleet.sees("all claims to go", lambda: not fleet.claims())
    assert person.claim_uids() == others, "another fleet's claims stay"
    assert fleet.types("kubectl get configmap $NAME-record -o name").strip(), "the record stays"
