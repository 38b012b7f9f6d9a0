"""A small model of the rules of BP-46, explored state by state.

The simulator runs the product on random schedules; this model runs no product code and leaves no schedule out. One
ledger, one writer, one recovery, a re-replicator, three or four bookies that lose volumes, crash, or are made a second
time. Each rule is a guard that can be taken away: with all of them nothing breaks in any reachable state of the
bounded space, and without one of them `python -m bookie.sim.model` tells the shortest story of a loss.

    states     what a state is, what must hold in it, the guards
    writer, recovery, replication, boots     who does what
    explore    breadth first over all states
    spaces     the bounds, and in which of them each guard is seen to matter

What the model leaves out stands in docs/SIMULATION.md, "The model".
"""
