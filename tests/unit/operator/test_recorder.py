"""Events are written best effort (operator/bookie_operator/recorder.py)."""

import asyncio
from typing import Any, cast

from bookie_operator.gateways.kube import Kube, KubeError, Manifest
from bookie_operator.model.cluster import ClusterRef
from bookie_operator.recorder import Recorder
from bookie_operator.status.events import ClusterEvent

CLUSTER = ClusterRef("data", "ledgers", "uid", "1")
NOW_MS = 1_800_000_000_000


class Overloaded:
    """An API server that takes no event before it was asked twice."""

    def __init__(self) -> None:
        self.asked, self.now_s = 0, 0.0

    async def create(self, _: Manifest) -> Any:
        self.asked += 1
        if self.asked == 1:
            raise KubeError("POST events", 429, "too many requests", 7_000)


def test_an_event_is_sent_again_when_the_api_server_wants_to_hear_of_it() -> None:
    api = Overloaded()
    recorder = Recorder(cast(Kube, api), "operator", lambda: api.now_s)
    asked = []

    for api.now_s in (0.0, 1.0, 6.9, 7.0, 8.0):
        asyncio.run(recorder.record(CLUSTER, ClusterEvent("BookieHeld", "", "key", "words"), NOW_MS))
        asked.append(api.asked)

    assert asked == [1, 1, 1, 2, 2]
