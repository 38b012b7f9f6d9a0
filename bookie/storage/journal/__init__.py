"""The journal: what was acknowledged and is not yet checkpointed. Written in groups, one sync per group."""
