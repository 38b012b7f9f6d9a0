"""The journal: keeps every acknowledged record until a checkpoint covers it. Written in groups, with one sync per
group."""
