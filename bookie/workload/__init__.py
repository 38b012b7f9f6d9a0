"""The oracle workload: writers that remember every acknowledgement, and the check that nothing acknowledged is lost.

It uses the public client as any application would, and keeps its own record outside the fleet: an entry is written
down, durably, only after the fleet acknowledged it. `records` is that log, `payload` the bytes, `check` the verdict
(all pure); `writer` and `verify` drive the client. It must never read what it checks from the fleet it checks.
"""
