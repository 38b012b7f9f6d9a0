"""Garbage collection: deletes ledgers that the metadata store no longer has, and drops or rewrites their entry logs."""
