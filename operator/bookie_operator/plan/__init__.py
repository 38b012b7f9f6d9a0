"""From an observation to what should be done next. Pure: same observation, same plan; nothing is remembered.

Never here: a write to spec, a cookie, a deletion of a claim, a grant with a closed gate.
"""
