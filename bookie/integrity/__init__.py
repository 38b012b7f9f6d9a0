"""BP-46: decides what a bookie that may have lost data can conclude at a boot, and brings the lost entries back.

What may go wrong. The replication protocol believes a bookie in two things (`bookie.quorum`): once it answered a fence
it takes no normal add of that ledger any more, and what it acknowledged it has. A bookie that lost its disks, or got
an old copy of them, breaks both and does not know it. It takes an add behind the end of a closed ledger; or it says "no
such entry" to a recovery, which then ends the ledger before an entry that was acknowledged. One such answer is enough,
so the repair cannot come after the first request. It has three parts.

First, notice it. Disks cannot say what they no longer have, so somebody else must remember: the cookie and the
    incarnation record in the metadata store say that this id had data, in which incarnation and boot it was, how far
    its journals were durable. A volume's sentinel says whose it is and of when. (`inspection`, `volumes`, `position`)
    What no rule proves harmless is held for a person: stamping a strange disk destroys what it holds, and starting
    without it denies what it holds. (`verdict`, `mounts`)
Then, say less. Phase one marks every ledger that could be hit, by the metadata as it is after the loss: a fence where a
    recovery may have fenced us; limbo, "I never say no", where entries of ours may be gone. In other words, a wrong add
    becomes a refusal and a wrong "no" becomes "unknown", and the arithmetic of the negative quorum holds again, with
    this bookie counted as one that cannot say. A mark too many costs a repair; a mark too few costs data: hence marks
    are made on a doubt, are durable before the cookie is replaced and before anything is served, and until then the
    store answers "unknown" to everything. The change of cookie and record, one compare-and-set, begins the next
    incarnation; whatever is cut before it is found as a loss again. (`phase_one`, `ledgers`, `identity`, `boot`)
At last, get it back. Phase two, beside serving, works through the marks: the ledger's end is decided by others, what is
    missing is copied and checked, made durable, and only then the mark goes; that must be durable, too. (`phase_two`)

Who may start this. New volumes for an old id mean "what was here is gone": somebody besides the bookie has to agree
    that they are not merely unmounted. The grant names a hash of all that was seen, and is void when any of it changes.
    (`grant`, `evidence`, `gate`) And only one process may be this bookie, or a second one acknowledges what the marks
    no longer see. (`holder`)

What this assumes of others. A ledger's metadata names a bookie before its writer sends it an entry, and says
IN_RECOVERY before the first fence and for as long as a recovery may bring others in. A `sync` of the metadata store
shows what was committed before it. What `EntryStore.protect` marked survives a power cut once it has returned. Why each
step is safe, cut by cut: docs/INTEGRITY.md.
"""
