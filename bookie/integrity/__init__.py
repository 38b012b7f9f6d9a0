"""BP-46: a bookie that may have lost data. What a boot may conclude, and how what was lost comes back.

In the order of a boot: `volumes` and `inspection` look (and write nothing), `verdict` concludes, `grant` checks the
other party's word, `phase_one` makes the marks durable, `identity` changes cookie and incarnation by compare-and-set,
`boot` holds the order of all this, `phase_two` recovers, copies, verifies and clears beside serving.
Why each step is safe: docs/INTEGRITY.md.
"""
