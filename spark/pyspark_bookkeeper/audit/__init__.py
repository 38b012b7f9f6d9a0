"""The audit: is every replica there that the metadata promises?

    plan       what is audited, in units of ledgers; written down, so that a killed audit goes on
    inspector  asks bookies what they hold, ledger by ledger (asyncio, the client of this project)
    compare    expected against held, as bitmaps: findings
    tally      figures of many ledgers, summed
    risk       what the loss of a zone would take
    parts      findings and figures on disk, one atomically committed file per wave of units
    job        the Spark side: units to tasks, results to parts
    report     one HTML page; `plots` its pictures
    command    `python -m pyspark_bookkeeper audit`

The audit reads. It never writes to a bookie or to the metadata store, and never recovers or fences a ledger.
"""
