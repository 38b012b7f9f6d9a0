"""Bookie: replicated ledgers that stay right when disks vanish. This module holds the version and imports nothing."""

__version__ = "0.1.0"
