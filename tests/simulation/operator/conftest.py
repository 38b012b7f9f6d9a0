"""A fleet in service, made once; each test has a copy of its own."""

import asyncio

import pytest

import operator_world_support as worlds
from operator_world_support import World


@pytest.fixture(scope="session")
def built() -> World:
    """A fleet in service, as an operator made it from nothing. Never changed: who wants to, clones it."""
    world = worlds.world()
    asyncio.run(world.run(world.operator(), passes=12))
    assert world.is_quiet(), world.status()
    return world


@pytest.fixture
def world(built: World) -> World:
    return worlds.clone(built)
