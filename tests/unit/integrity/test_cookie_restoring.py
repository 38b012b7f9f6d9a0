"""A deleted cookie is written again only where nothing but the cookie is missing (spec/operator.md#U9)."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest

import integrity_support as build
from bookie.base import errors
from bookie.integrity import cookie_restoring
from bookie.integrity.identity import StoredIdentity
from bookie.integrity.inspection import Inspection
from bookie.integrity.verdict import Decision
from bookie.metadata.cookie import Cookie
from bookie.ports.admin import Contents, MountProof, State, Verdict

COOKIE = Cookie(build.ME, ("/journal",), ("/ledgers",), instance_id=build.INSTANCE)
IDENTITY = StoredIdentity(
    instance_id=build.INSTANCE,
    cookie=None,
    cookie_problem="",
    cookie_version=-1,
    cookie_digest="",
    record=build.RECORD,
    record_version=3,
    record_path="/ledgers/incarnations/bookie-0",
)
SEEN = Inspection(
    identity=IDENTITY,
    master=COOKIE,
    volumes=(build.volume("journal"), build.volume("ledgers")),
    decision=Decision(Verdict.COOKIE_MISSING, "its cookie is gone"),
    evidence_hash="evidence",
    is_dirty=False,
    is_set_back=False,
)


def reason(*, state: State = State.HELD, evidence_hash: str = "evidence", **changes: Any) -> str:
    """Why it is refused, in one word; "" when it is not."""
    of_identity = {name: changes.pop(name) for name in ("cookie", "cookie_problem", "record") if name in changes}
    seen = dataclasses.replace(SEEN, identity=dataclasses.replace(IDENTITY, **of_identity), **changes)
    try:
        cookie_restoring.check(seen, state, evidence_hash=evidence_hash)
    except errors.GrantRefused as refused:
        return cast(str, refused.reason)
    return ""


def test_a_cookie_that_alone_is_missing_may_be_written_again() -> None:
    assert reason() == ""


@pytest.mark.parametrize("state", [state for state in State if state is not State.HELD])
def test_a_bookie_that_is_not_held_writes_none(state: State) -> None:
    assert reason(state=state) == "not_waiting"


def test_a_cookie_that_is_there_is_not_written_over_whatever_it_says() -> None:
    assert reason(cookie=COOKIE) == "not_missing"
    assert reason(cookie_problem="it cannot be read") == "not_missing"


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.COOKIE_MISSING])
def test_where_anything_else_is_wrong_a_cookie_would_hide_it(verdict: Verdict) -> None:
    assert reason(decision=Decision(verdict, "because")) == "not_missing"


def test_without_the_record_nobody_knows_of_which_life_the_disks_are() -> None:
    assert reason(record=None) == "no_record"


@pytest.mark.parametrize("contents", [contents for contents in Contents if contents is not Contents.VALID])
def test_every_disk_must_be_this_bookie_s_and_whole(contents: Contents) -> None:
    assert reason(volumes=(build.volume("journal"), build.volume("ledgers", contents))) == "disks"


@pytest.mark.parametrize("proof", [MountProof.UNSPECIFIED, MountProof.SUSPECT, MountProof.MISSING])
def test_every_mount_must_be_proven(proof: MountProof) -> None:
    assert reason(volumes=(build.volume("journal"), build.volume("ledgers", proof=proof))) == "mounts"


def test_disks_that_went_back_in_time_say_what_the_cookie_was_and_nothing_of_what_was_lost() -> None:
    assert reason(is_set_back=True) == "set_back"


def test_what_was_judged_must_be_what_is_seen() -> None:
    assert reason(evidence_hash="of before") == "evidence_changed"
