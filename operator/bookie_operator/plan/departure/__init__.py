"""How one bookie leaves, state by state; who leaves and when is decided in plan/leaving.py."""
