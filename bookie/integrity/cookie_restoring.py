"""Whether a bookie may write its cookie again, whose node somebody deleted (spec/operator.md#U9).

The disks say what the cookie was, and the incarnation record says that they are of the bookie's present life. Nothing
else is ever put back: where any of this disagrees, or is not known, a person restores the metadata store.
"""

from bookie.base import errors
from bookie.integrity.grant import unproven
from bookie.integrity.inspection import Inspection
from bookie.ports.admin import Contents, State, Verdict


def check(seen: Inspection, state: State, *, evidence_hash: str) -> None:
    """Raise GrantRefused with the first rule that forbids it. `evidence_hash`: what the caller judged."""
    for is_refused, reason, text in _rules(seen, state, evidence_hash):
        if is_refused:
            raise errors.GrantRefused(reason, text)


def _rules(seen: Inspection, state: State, evidence_hash: str) -> tuple[tuple[bool, str, str], ...]:
    identity = seen.identity
    is_missing = seen.decision.verdict is Verdict.COOKIE_MISSING and identity.cookie is None
    wrong = [volume.name for volume in seen.volumes if volume.contents is not Contents.VALID]
    not_proven = unproven(seen.volumes)
    return (
        (state is not State.HELD, "not_waiting", f"this bookie is {state.value}, and not held"),
        (not is_missing or bool(identity.cookie_problem), "not_missing", "it is not its cookie alone that is missing"),
        (identity.record is None, "no_record", "its incarnation record is gone too: restore the metadata store"),
        (bool(wrong), "disks", f"not valid: {', '.join(wrong)}"),
        (bool(not_proven), "mounts", f"mounts that are not proven: {', '.join(not_proven)}"),
        (seen.is_set_back, "set_back", "its disks hold less than it once reported: they went back in time"),
        (evidence_hash != seen.evidence_hash, "evidence_changed", "what was judged is not what is seen now"),
    )
