"""What the facts prove about each volume and bookie. Pure; every answer carries one readable sentence.

**What may go wrong.** A bookie whose volumes are empty looks like a new one. If it starts as new, it answers "no such
entry" for entries that it once acknowledged, and takes adds that a fence had forbidden: a ledger is then closed too
short, and acknowledged entries are gone although other bookies still have them (BP-46). And if somebody calls a volume
lost that is only not mounted, the bookie gets a new life, and the data on the old volume counts for nothing.

So four things that all look like "empty" must be told apart:

    new        no witness remembers data            the bookie may begin                           Bootstrap
    lost       witnesses remember data, and it      the operator may grant a new life,             LostVolume
               cannot be behind this claim          once every gate is open (`plan`)
    away       the volume is not proven mounted     wait: the data may be whole                    MountMissing
    anything   wiped, older, foreign, half          only a person can know                         Held
    else

**The witnesses.** The claim: its uid tells whether Kubernetes replaced it, and our annotations on it say which life of
which bookie it holds. The bookie's own report: what it finds on each volume, and how it proved the mount. The metadata
store, as the bookie reads it: the cookie, and the ledgers that name this bookie. Our record of earlier passes, which
may be lost. In other words: a claim without our mark is expected to be empty, and a claim with the mark must never be.

**The rule.** "Lost" needs one witness of each kind that says so, and none that contradicts. A missing witness makes the
conclusion Unknown, a contradiction makes it Held; silence is no answer. The conclusion about a bookie is that about its
worst volume (`bookie`), and the bookie's own verdict can only make it more careful.

**What this package assumes of others.** The facts of one case were read live in one pass (`observe`). A claim's uid
is never used twice. A bookie looks at its volumes anew before it obeys a grant, so that a fact which changes after this
judgement voids the grant: `Evidence.digest` is over every fact that the proof stands on.

`volume` has the table of conclusions, `bookie` the comparison, `processes` what is known of older processes of one id.

Never here: a guess. "Unknown" is not "absent", an unreachable bookie is not an empty one, and a case that no row of the
table (spec/operator.md#V1 to V8) names is held for a person.
"""
