"""The simulated world: a whole deterministic cluster in one process, from one seed.

`python -m bookie.sim SEED` replays a run. Implements the ports of `bookie.ports`; never imports `bookie.runtime`, and
nothing of the product imports it. How to use it: docs/SIMULATION.md.
"""
