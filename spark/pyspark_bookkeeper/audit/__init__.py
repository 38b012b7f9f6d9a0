"""The audit: is every replica there that the metadata promises?

**What is promised.** Metadata name, for each segment of a ledger, an ensemble of E bookies. Entry n belongs on as many
of them as the write quorum, the first at place n mod E. Of a closed ledger every entry is promised, of an open one
those up to the last confirmed entry are; an ack quorum has each of them, and its others may still be on their way.

**What may go wrong.** An audit can do harm by one word: somebody who reads "every replica is there" deletes the last
copy. And one who reads "missing" of a copy that is only on its way repairs what is whole. Hence three outcomes, of the
report's title, the JSON and the exit code: proven whole, proven damage, not known (with how many and why).

  * A bookie that does not answer, is in limbo or fails has neither proven a copy nor a hole: `unreachable`.
  * A list of entries comes from a bookie's index, and its entry log may be zeros all the same. So a copy is *listed*
    until it was read and its digest fitted; the report says how many were read.
  * Ledgers move while they are looked at. Their record is read before the bookies are asked and again when there is
    something to tell; one that changed proves nothing. What is told was found twice, with a pause between.
  * A ledger younger than the grace time may have copies on their way: it is waited for, and else not known.

In other words: damage needs a bookie that clearly says no, twice, under an unchanged record; whole needs an answer from
every bookie that is named; everything else is counted as not known.

**What this package assumes of others.** `last_confirmed` never returns more than is acknowledged (`bookie.client`); a
bookie that may have lost entries of a ledger says that it does not know (limbo), and never "no such entry".

    plan       what is audited, in units of ledgers; written down, so that a killed audit goes on
    inspector  asks bookies what they hold, ledger by ledger (asyncio, the client of this project)
    sampling   reads copies and verifies them
    compare    expected against held, as bitmaps: findings
    tally      figures of many ledgers, summed
    risk       what the loss of a zone would take
    parts      findings and figures on disk, one atomically committed file per wave of units
    job        the Spark side: units to tasks, results to parts
    report     one HTML page; `plots` its pictures, `summary` its figures as JSON
    command    `python -m pyspark_bookkeeper audit`

The audit reads. It never writes to a bookie or to the metadata store, and never recovers or fences a ledger.
"""
