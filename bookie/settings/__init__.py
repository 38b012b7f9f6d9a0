"""Which settings a bookie has, and which values each may take: pure, so that the operator can judge by the same
table."""
