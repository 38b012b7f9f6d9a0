"""The journal: keeps every acknowledged record until a checkpoint covers it. Written in groups, one sync per group."""
