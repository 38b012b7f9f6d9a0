"""A whole cluster on one machine for development: an embedded ZooKeeper and N bookie processes.

It starts the fleet, prints what it started, waits, and ends the fleet; it restarts nothing, so that a developer can
kill and wipe bookies at will.
"""
