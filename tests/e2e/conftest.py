"""One fleet for all tests of this folder, and the demo's story told on it once."""

import pytest

from fleet_kubernetes import KubernetesStage
from kube_talk import say
from stage import Outcome
from stage_support import LOGS, stage
from story import Story
from timeline import Timeline

__all__ = ["stage", "told"]


@pytest.fixture(scope="session")
def told(stage: KubernetesStage) -> Outcome:
    """The demo's whole story, told once on that fleet."""
    return Story(stage, Timeline(say), look_at=str(LOGS)).go_on()
