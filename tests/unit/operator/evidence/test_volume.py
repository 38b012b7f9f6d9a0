"""The verdict table, row by row (spec/operator.md#V1 to V8), and the ways in which it may not be fooled."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Contents, MountProof, StorageReport
from bookie_operator.evidence import volume
from bookie_operator.evidence.facts import NodeFacts, PersistentVolumeFacts, VolumeCase
from bookie_operator.evidence.reasons import Conclusion, Finding

POD_MS = make.NOW_MS - 1_000


def judge(case: VolumeCase, report: StorageReport | None = None) -> Finding:
    return volume.judge(case, report or make.report(), pod_created_ms=POD_MS)


def new_claim(**report_changes: Any) -> VolumeCase:
    """A volume on a claim that was never marked and is not the recorded one."""
    case = make.replaced(make.volume_case())
    assert case.report is not None
    return replace(case, report=make.changed(case.report, **report_changes))


def unrecorded(case: VolumeCase) -> VolumeCase:
    return replace(case, recorded=None)


def same_claim(**report_changes: Any) -> VolumeCase:
    case = make.volume_case()
    assert case.report is not None
    return replace(case, report=make.changed(case.report, **report_changes))


NO_COOKIE = make.report(cookie_present=False, cookie_version=-1, incarnation=0, ledgers_naming_me=0)

# (row of the table, the volume, the report, verdict, reason)
TABLE = [
    ("new claim, empty, no cookie, no history", unrecorded(new_claim()), NO_COOKIE, "Bootstrap", "NewVolume"),
    ("new claim, empty, cookie exists", new_claim(), make.report(), "LostVolume", "EmptyVolume"),
    (
        "new claim, valid, epoch equal",
        new_claim(contents=Contents.VALID, sentinel=make.sentinel("data.ledgers.zone-a.0", 1)),
        make.report(),
        "Healthy",
        "Reattached",
    ),
    ("new claim, epoch behind", new_claim(contents=Contents.STALE), make.report(), "Held", "StaleVolume"),
    ("new claim, foreign", new_claim(contents=Contents.FOREIGN), make.report(), "Held", "ForeignVolume"),
    ("new claim, strange files", new_claim(contents=Contents.UNKNOWN), make.report(), "Held", "UnknownContent"),
    ("new claim, dead disk", new_claim(contents=Contents.UNREADABLE), make.report(), "Held", "UnreadableVolume"),
    ("marked, dead disk", same_claim(contents=Contents.UNREADABLE), make.report(), "Held", "UnreadableVolume"),
    (
        "dead disk, mounted by the table alone",
        same_claim(contents=Contents.UNREADABLE, proof=MountProof.SILENT),
        make.report(),
        "Held",
        "UnreadableVolume",
    ),
    *(
        (
            f"a mount by the table alone, {contents.name}",
            same_claim(contents=contents, proof=MountProof.SILENT),
            make.report(),
            "MountMissing",
            "MountSuspect",
        )
        for contents in (Contents.EMPTY, Contents.VALID, Contents.STALE)
    ),
    (
        "dead disk, not mounted",
        same_claim(contents=Contents.UNREADABLE, proof=MountProof.MISSING),
        make.report(),
        "MountMissing",
        "MountMissing",
    ),
    ("new claim, added", unrecorded(new_claim(contents=Contents.ADDED)), make.report(), "Adding", "AddedVolume"),
    (
        "new claim, added, no cookie",
        unrecorded(new_claim(contents=Contents.ADDED)),
        NO_COOKIE,
        "Held",
        "CookieMissingInMetadata",
    ),
    (
        "marked, added by the bookie's word",
        same_claim(contents=Contents.ADDED),
        make.report(),
        "Held",
        "EmptyButInitialized",
    ),
    (
        "added, not mounted",
        new_claim(contents=Contents.ADDED, proof=MountProof.MISSING),
        make.report(),
        "MountMissing",
        "MountMissing",
    ),
    ("marked, valid, epoch equal", same_claim(), make.report(), "Healthy", "Valid"),
    ("marked, epoch behind", same_claim(contents=Contents.STALE), make.report(), "Held", "StaleVolume"),
    (
        "marked, empty, new file system, local disk",
        replace(same_claim(contents=Contents.EMPTY, fsid="other"), is_local_disk=True),
        make.report(),
        "Held",
        "ResetLocalDisk",
    ),
    ("marked, empty, same file system", same_claim(contents=Contents.EMPTY), make.report(), "Held", "WipedInPlace"),
    (
        "marked, empty, new file system, not local",
        same_claim(contents=Contents.EMPTY, fsid="other"),
        make.report(),
        "Held",
        "EmptyButInitialized",
    ),
    ("not mounted, empty", new_claim(proof=MountProof.MISSING), make.report(), "MountMissing", "MountMissing"),
    ("not mounted, valid", same_claim(proof=MountProof.MISSING), make.report(), "MountMissing", "MountMissing"),
    ("mount suspect", new_claim(proof=MountProof.SUSPECT), make.report(), "MountMissing", "MountSuspect"),
    ("mount unchecked", new_claim(proof=MountProof.UNCHECKED), make.report(), "MountMissing", "MountSuspect"),
    ("mount word unknown", new_claim(proof=MountProof.UNSPECIFIED), make.report(), "MountMissing", "MountSuspect"),
    ("shared, not allowed", new_claim(proof=MountProof.SHARED), make.report(), "MountMissing", "SharedFilesystem"),
]


@pytest.mark.parametrize(
    ("case", "report", "verdict", "reason"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_every_row_of_the_table(case: VolumeCase, report: StorageReport, verdict: str, reason: str) -> None:
    finding = judge(case, report)

    assert (finding.conclusion.value, finding.reason) == (verdict, reason)
    assert case.name in finding.message


NODE = NodeFacts("node-a", "machine-1", boot_id="boot-2")


def reset_disk(**changes: Any) -> VolumeCase:
    """A local disk that was on NODE in its boot before, and is empty now on another file system."""
    case = same_claim(contents=Contents.EMPTY, sentinel=None, fsid="other")
    assert case.recorded is not None
    was = {"node": "node-a", "node_uid": "machine-1", "boot_id": "boot-1"} | changes.pop("was", {})
    recorded = case.recorded.model_copy(update=was)
    return replace(case, **({"is_local_disk": True, "may_be_reset": True, "recorded": recorded} | changes))


def judge_reset(case: VolumeCase, node: NodeFacts | None = NODE, report: StorageReport | None = None) -> Finding:
    return volume.judge(case, report or make.report(), pod_created_ms=POD_MS, node=node)


def test_a_local_disk_that_its_machine_emptied_is_lost_where_the_spec_lets_it_go_on() -> None:
    booted, made_anew = judge_reset(reset_disk()), judge_reset(reset_disk(), replace(NODE, uid="machine-2", boot_id=""))

    for finding in (booted, made_anew):
        assert (finding.conclusion, finding.reason) == (Conclusion.LOST_VOLUME, "LocalDiskWasReset")


# (what is missing in the proof, the volume, its pod's node, the report, the reason)
UNPROVEN_RESETS = [
    ("the spec says Hold", reset_disk(may_be_reset=False), NODE, None, "ResetLocalDisk"),
    ("the machine did not boot", reset_disk(), replace(NODE, boot_id="boot-1"), None, "ResetLocalDisk"),
    ("it registered anew", reset_disk(), replace(NODE, uid="machine-2", boot_id="boot-1"), None, "ResetLocalDisk"),
    ("nodes cannot be read", reset_disk(), None, None, "ResetLocalDisk"),
    ("the node does not say its boot", reset_disk(), replace(NODE, boot_id=""), None, "ResetLocalDisk"),
    ("nobody noted the boot before", reset_disk(was={"boot_id": ""}), NODE, None, "ResetLocalDisk"),
    ("nobody noted the machine before", reset_disk(was={"node_uid": ""}), NODE, None, "ResetLocalDisk"),
    ("our record is lost", unrecorded(reset_disk()), NODE, None, "ResetLocalDisk"),
    ("our record is of another claim", reset_disk(was={"pvc_uid": "another"}), NODE, None, "ResetLocalDisk"),
    ("another machine", reset_disk(), NodeFacts("node-b", "machine-2", boot_id="boot-9"), None, "ResetLocalDisk"),
    ("no cookie", reset_disk(), NODE, make.report(cookie_present=False), "ResetLocalDisk"),
    ("no metadata store", reset_disk(), NODE, make.report(metadata_reachable=False), "ResetLocalDisk"),
    ("the same file system", same_claim(contents=Contents.EMPTY), NODE, None, "WipedInPlace"),
    ("no local disk", reset_disk(is_local_disk=False), NODE, None, "EmptyButInitialized"),
]


@pytest.mark.parametrize(
    ("case", "node", "report", "reason"), [row[1:] for row in UNPROVEN_RESETS], ids=[row[0] for row in UNPROVEN_RESETS]
)
def test_a_local_disk_is_held_while_one_proof_is_missing(
    case: VolumeCase, node: NodeFacts | None, report: StorageReport | None, reason: str
) -> None:
    finding = judge_reset(case, node, report)

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, reason)


@pytest.mark.parametrize("proof", [MountProof.MISSING, MountProof.SUSPECT, MountProof.SHARED])
def test_a_local_disk_that_is_not_mounted_after_a_boot_is_never_taken_for_a_reset_one(proof: MountProof) -> None:
    case = reset_disk(shares_filesystem=True)
    assert case.report is not None

    finding = judge_reset(replace(case, report=make.changed(case.report, proof=proof)))

    assert finding.conclusion in (Conclusion.MOUNT_MISSING, Conclusion.HELD)


def test_a_local_disk_whose_claim_is_being_deleted_is_held() -> None:
    case = reset_disk()
    assert case.claim is not None

    assert judge_reset(replace(case, claim=replace(case.claim, is_terminating=True))).reason == "ResetLocalDisk"


def set_back(**changes: Any) -> VolumeCase:
    """A volume of the first boot, which the spec lets go on; the metadata store knows a second one."""
    return replace(same_claim(contents=Contents.STALE), may_be_stale=True, **changes)


LATER = make.report(boot_epoch=2)


def test_a_volume_that_went_back_in_time_is_given_up_where_the_spec_and_the_metadata_store_say_so() -> None:
    finding = judge(set_back(), LATER)

    assert (finding.conclusion, finding.reason) == (Conclusion.LOST_VOLUME, "StaleVolumeGivenUp")


def later_mark() -> VolumeCase:
    case = set_back()
    assert case.claim is not None
    return replace(case, claim=replace(case.claim, marks=make.marks(case.claim.uid, "fs-ledgers", incarnation=2)))


def terminating() -> VolumeCase:
    case = set_back()
    assert case.claim is not None
    return replace(case, claim=replace(case.claim, is_terminating=True))


@pytest.mark.parametrize(
    ("case", "report"),
    [
        (replace(set_back(), may_be_stale=False), LATER),
        (set_back(), make.report(boot_epoch=1)),
        (set_back(), replace(LATER, cookie_present=False)),
        (set_back(), replace(LATER, metadata_reachable=False)),
        (set_back(), replace(LATER, bookie_id="data.ledgers.zone-b.0")),
        (set_back(report=replace(set_back().report, sentinel=None)), LATER),  # type: ignore[type-var]
        (later_mark(), LATER),
        (terminating(), LATER),
    ],
    ids=[
        "the spec says Hold",
        "the store knows no later boot",
        "no cookie",
        "no metadata store",
        "another bookie's sentinel",
        "no sentinel",
        "the store itself went back",
        "its claim is being deleted",
    ],
)
def test_a_volume_that_went_back_in_time_is_held_while_one_proof_is_missing(
    case: VolumeCase, report: StorageReport
) -> None:
    finding = judge(case, report)

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "StaleVolume")


@pytest.mark.parametrize("proof", [MountProof.MISSING, MountProof.SUSPECT])
def test_a_volume_that_went_back_in_time_under_an_unproven_mount_is_never_given_up(proof: MountProof) -> None:
    case = set_back()
    assert case.report is not None

    finding = judge(replace(case, report=make.changed(case.report, proof=proof)), LATER)

    assert finding.conclusion is Conclusion.MOUNT_MISSING


def test_an_empty_volume_without_cookie_is_held_when_a_ledger_names_the_bookie() -> None:
    report = replace(NO_COOKIE, ledgers_naming_me=3)

    finding = judge(unrecorded(new_claim()), report)

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "CookieMissingInMetadata")
    assert "3 ledgers" in finding.message


def test_an_empty_volume_without_cookie_is_held_when_we_have_seen_it_alive() -> None:
    finding = judge(new_claim(), NO_COOKIE)

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "CookieMissingInMetadata")


def test_an_empty_volume_without_cookie_is_unknown_until_ledgers_are_counted() -> None:
    finding = judge(unrecorded(new_claim()), replace(NO_COOKIE, ledgers_naming_me=-1))

    assert (finding.conclusion, finding.reason) == (Conclusion.UNKNOWN, "LedgersNotCounted")


def test_an_unreachable_metadata_store_never_makes_a_volume_lost_or_new() -> None:
    finding = judge(new_claim(), make.report(metadata_reachable=False, cookie_present=False))

    assert (finding.conclusion, finding.reason) == (Conclusion.UNKNOWN, "MetadataUnreachable")


def test_a_volume_with_data_whose_cookie_is_gone_is_held() -> None:
    finding = judge(same_claim(), make.report(cookie_present=False))

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "CookieMissingInMetadata")


def test_a_sentinel_of_another_bookie_is_foreign_even_if_the_bookie_calls_it_valid() -> None:
    finding = judge(same_claim(sentinel=make.sentinel("data.ledgers.zone-b.0", 1)))

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "ForeignVolume")


def test_a_mark_from_a_later_life_than_the_metadata_knows_is_held() -> None:
    case = make.volume_case()
    assert case.claim is not None
    case = replace(case, claim=replace(case.claim, marks=make.marks(case.claim.uid, "fs-ledgers", incarnation=2)))

    finding = judge(case)

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "IncarnationWentBack")


def test_a_removed_mark_does_not_make_the_same_claim_new() -> None:
    case = same_claim(contents=Contents.EMPTY)
    assert case.claim is not None

    finding = judge(replace(case, claim=replace(case.claim, marks=None)))

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "WipedInPlace")


def test_a_mark_copied_onto_a_new_claim_holds_it() -> None:
    case = new_claim()
    assert case.claim is not None

    finding = judge(replace(case, claim=replace(case.claim, marks=make.marks("claim-ledgers-1", "fs-ledgers"))))

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "EmptyButInitialized")


def test_an_empty_volume_on_a_claim_that_is_being_deleted_is_held() -> None:
    case = new_claim()
    assert case.claim is not None

    finding = judge(replace(case, claim=replace(case.claim, is_terminating=True)))

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "ClaimTerminating")


def test_a_claim_younger_than_the_pod_on_it_proves_nothing_about_what_the_pod_sees() -> None:
    case = new_claim()
    assert case.claim is not None

    finding = judge(replace(case, claim=replace(case.claim, created_ms=POD_MS + 1)))

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "ClaimNewerThanPod")


def shared(case: VolumeCase) -> VolumeCase:
    assert case.report is not None
    return replace(case, shares_filesystem=True, report=make.changed(case.report, proof=MountProof.SHARED))


def test_a_shared_disk_with_a_changed_persistent_volume_is_lost() -> None:
    finding = judge(shared(new_claim()))

    assert (finding.conclusion, finding.reason) == (Conclusion.LOST_VOLUME, "EmptyVolume")
    assert "pv-uid-ledgers-2 instead of pv-uid-ledgers-1" in finding.message


def test_a_shared_disk_with_the_same_persistent_volume_is_held() -> None:
    case = replace(shared(new_claim()), pv=PersistentVolumeFacts("pv-ledgers-1", "pv-uid-ledgers-1"))

    finding = judge(case)

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "SharedVolumeUnchanged")


@pytest.mark.parametrize("missing", ["recorded", "pv"])
def test_a_shared_disk_without_both_identities_is_held(missing: str) -> None:
    changes: dict[str, Any] = {missing: None}

    finding = judge(replace(shared(new_claim()), **changes))

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "SharedVolumeUnproven")


def test_a_half_done_regeneration_is_still_the_same_loss() -> None:
    finding = judge(new_claim(contents=Contents.REGENERATING))

    assert (finding.conclusion, finding.reason) == (Conclusion.LOST_VOLUME, "Regenerating")


def test_a_half_done_regeneration_without_cookie_is_held() -> None:
    finding = judge(new_claim(contents=Contents.REGENERATING), NO_COOKIE)

    assert (finding.conclusion, finding.reason) == (Conclusion.HELD, "CookieMissingInMetadata")


def test_a_volume_that_the_bookie_does_not_report_is_unknown() -> None:
    finding = judge(replace(make.volume_case(), report=None))

    assert (finding.conclusion, finding.reason) == (Conclusion.UNKNOWN, "NotReported")


def test_a_volume_without_claim_is_unknown() -> None:
    finding = judge(replace(make.volume_case(), claim=None))

    assert (finding.conclusion, finding.reason) == (Conclusion.UNKNOWN, "ClaimMissing")


def test_the_bookies_own_words_are_in_the_message() -> None:
    finding = judge(new_claim(proof=MountProof.MISSING, reason="same device as /etc/hosts"))

    assert "same device as /etc/hosts" in finding.message


def test_a_claim_whose_file_system_nobody_noted_counts_as_wiped_in_place() -> None:
    """The careful reading: not even the node's reboot could explain it away."""
    case = same_claim(contents=Contents.EMPTY, fsid="other")
    assert case.claim is not None
    unnoted = replace(case, claim=replace(case.claim, marks=make.marks(case.claim.uid, "")), recorded=None)

    assert judge(unnoted).reason == "WipedInPlace"
    assert unnoted.is_initialised
    assert not replace(unnoted, claim=None).is_initialised


def test_the_record_remembers_the_file_system_of_the_same_claim() -> None:
    case = same_claim(contents=Contents.EMPTY, fsid="other")
    assert case.claim is not None

    finding = judge(replace(case, claim=replace(case.claim, marks=None)))

    assert finding.reason == "EmptyButInitialized"


# ---- volumes that go with their pods (spec/operator.md#X8)


def passing(case: VolumeCase, pod_uid: str, **mount: Any) -> VolumeCase:
    """The same volume, as the kubelet made it for pod `pod_uid`; `case` says which pod it was recorded in."""
    assert case.report is not None
    assert case.claim is not None
    root = f"/kubelet/pods/{pod_uid}/volumes/kubernetes.io~empty-dir/{case.name}"
    seen = replace(case.report.mount, **{"proof": MountProof.SHARED, "root": root} | mount)
    return replace(case, is_ephemeral=True, shares_filesystem=True, report=replace(case.report, mount=seen))


def uid_of(case: VolumeCase) -> str:
    assert case.claim is not None
    return case.claim.uid


def test_an_ephemeral_volume_in_a_new_pod_is_lost_and_without_a_cookie_it_is_new() -> None:
    case = new_claim(contents=Contents.EMPTY, sentinel=None)
    lost = judge(passing(case, uid_of(case)))
    new = judge(unrecorded(passing(case, uid_of(case))), NO_COOKIE)

    assert (lost.conclusion, lost.reason) == (Conclusion.LOST_VOLUME, "EmptyWithNewPod")
    assert (new.conclusion, new.reason) == (Conclusion.BOOTSTRAP, "NewVolume")


def test_an_ephemeral_volume_that_was_emptied_in_its_pod_is_held_but_for_a_machine_that_booted() -> None:
    wiped = same_claim(contents=Contents.EMPTY, sentinel=None)
    held = judge(passing(wiped, uid_of(wiped)))
    reset = reset_disk(is_local_disk=False)
    lost = judge_reset(passing(reset, uid_of(reset)))
    kept = judge_reset(passing(reset, uid_of(reset)), replace(NODE, boot_id="boot-1"))

    assert (held.conclusion, held.reason) == (Conclusion.HELD, "WipedInPlace")
    assert (lost.conclusion, lost.reason) == (Conclusion.LOST_VOLUME, "LocalDiskWasReset")
    assert (kept.conclusion, kept.reason) == (Conclusion.HELD, "ResetLocalDisk")


@pytest.mark.parametrize("contents", [Contents.EMPTY, Contents.VALID])
def test_an_ephemeral_volume_that_is_not_this_pods_counts_as_not_mounted(contents: Contents) -> None:
    case = new_claim(contents=contents)
    others = judge(passing(case, "another-pod"))
    longer = judge(passing(case, f"{uid_of(case)}-and-more"))
    nodes = judge(passing(case, uid_of(case), root="/data/bookie"))

    for finding in (others, longer, nodes):
        assert (finding.conclusion, finding.reason) == (Conclusion.MOUNT_MISSING, "NotOfThePod")
