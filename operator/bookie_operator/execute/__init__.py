"""Carries out one plan: the record, children and marks, the status, grants, events, then the steps that need a turn.

The order is the safety argument, and stands in `executor.py`. The disruption budget is closed before the operator acts
on a loss; the grant is in the stored status before the bookie hears of it; a step that fails stops every later step
that could do harm. Every step may be repeated: a crash between any two of them is repaired by the next pass (tests:
crash after every write).
"""
