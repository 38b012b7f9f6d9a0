"""Reclaiming: ledgers that the metadata store has no more, and entry logs that hold nothing else."""
