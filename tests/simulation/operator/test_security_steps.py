"""Required right after Permissive waits until nobody is Disabled (spec/operator.md#Q18)."""

from operator_world_support import World
from rolling_support import AUTOMATIC, PODS, Watcher, run


def modes(world: World) -> dict[str, str]:
    """By pod: what it was made to do without TLS."""
    return {
        one.name: "Required"
        if "tlsRequired=true" in one.settings
        else "Permissive"
        if "tlsProviderFactoryClass" in one.settings
        else "Disabled"
        for one in world.bookies.values()
    }


def test_no_bookie_requires_what_another_has_not_though_nobody_waited_between_the_edits(world: World) -> None:
    world.edit(rollout=AUTOMATIC | {"soakSeconds": 0})
    operator, watcher, together = world.operator(), Watcher(world), set[frozenset[str]]()

    world.edit(security={"tls": {"mode": "Permissive"}})
    run(world, operator, passes=2)
    world.edit(security={"tls": {"mode": "Required"}})
    for _ in range(90):
        run(world, operator, passes=1)
        together.add(frozenset(modes(world).values()))
        if len(modes(world)) == len(PODS) and set(modes(world).values()) == {"Required"}:
            break

    assert set(modes(world).values()) == {"Required"}
    assert not [one for one in together if {"Required", "Disabled"} <= one]
    assert watcher.wrong == []
