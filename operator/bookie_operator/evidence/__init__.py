"""What the facts prove about each volume and bookie. Pure; every answer carries one readable sentence.

Never here: a guess. "Unknown" is not "absent", an unreachable bookie is not an empty one, and whatever no row of the
table (operators.md 3.3) names is held for a person.
"""
