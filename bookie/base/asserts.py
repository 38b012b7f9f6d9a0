"""Asserts guard the data here: who has them switched off (`python -O`, PYTHONOPTIMIZE) gets no work done."""


def why_off() -> str:
    """Say what is wrong with how this interpreter was started; "" when asserts are on."""
    return "" if __debug__ else "asserts guard the data and are never switched off: run without -O and PYTHONOPTIMIZE"
