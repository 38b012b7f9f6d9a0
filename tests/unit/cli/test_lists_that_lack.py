"""A list that could not be made whole shows what there is, and is never called whole."""

import argparse
import contextlib
import io

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.cli import autorecovery as command
from bookie.cli import cookie, ledger
from bookie.client import Client
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.marks import Marks
from bookie.metadata import paths
from client_support import ROOT, URI, Fleet, tell
from failing_support import GONE, failing, made
from story_support import story

DENIED = errors.MetadataDenied("an ACL of somebody's")
BAD, BEHIND, ELSEWHERE = LedgerId(1), LedgerId(2), LedgerId(70_000)


def record(ledger_id: LedgerId) -> str:
    return paths.ledger_path(ROOT, ledger_id)


def mark(ledger_id: LedgerId) -> str:
    return paths.underreplicated(ROOT, ledger_id)


async def listing(client: Client, naming_: BookieId | None) -> tuple[int, list[str]]:
    """The exit code of `ledger list`, and what it shows."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        code = await ledger._list(client, argparse.Namespace(naming=naming_, json=False))
    return code, shown.getvalue().split()


@story(tell)
async def test_ledger_list_shows_the_others_and_says_that_one_may_lack(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, ELSEWHERE)
        store.raises[record(BAD)] = DENIED
        assert await listing(client, None) == (0, [str(BAD), str(ELSEWHERE)]), "an id needs no record"
        assert await listing(client, GONE) == (6, [str(ELSEWHERE)])
        store.raises[record(BAD).rpartition("/")[0]] = DENIED
        assert await listing(client, None) == (6, [str(ELSEWHERE)])
        with pytest.raises(errors.MetadataDenied):  # that nothing else names a bookie is what its removal relies on
            await listing(client, GONE)


@story(tell)
async def test_autorecovery_list_shows_the_others_and_says_that_more_may_be_marked(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        for each in (BAD, ELSEWHERE):
            await Marks(fleet.store, ROOT).mark(each, [GONE], 1)
        recovery = AutoRecovery(client.shared.ledgers.store, ROOT)
        asked = argparse.Namespace(missing=None, in_progress=False, json=False)
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            assert await command._list(recovery, asked) == 0
            store.raises[mark(BAD).rpartition("/")[0]] = DENIED
            whole = shown.tell()
            assert await command._list(recovery, asked) == 6
            part = shown.getvalue()[whole:]
            await command._status(recovery, asked)

        assert str(ELSEWHERE) in part


@story(tell)
async def test_a_cookie_is_not_deleted_as_if_a_record_that_may_not_be_read_named_nobody(fleet: Fleet) -> None:
    async with failing(fleet) as (client, store):
        await made(client, BAD, BEHIND)
        store.raises[record(BAD)] = DENIED

        assert await cookie._count_naming(client.shared.ledgers.store, paths.parse_uri(URI), GONE) == 2
