"""A whole cluster on one machine for development: an embedded ZooKeeper and N bookie processes.

It starts, tells, waits and ends; it restarts nothing by itself, so that one can kill and wipe as one likes.
"""
