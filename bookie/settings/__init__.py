"""Which settings a bookie has and what may be said in them: pure, so that the operator can judge by the same table."""
