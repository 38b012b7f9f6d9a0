"""`bookie cookie`: the identity of bookies in the metadata store and on their directories: see, check, make, mend.

Each verb shows what is wrong with an identity before it changes anything. Only `fix` makes an empty volume usable
again, in the order of every boot: marks first, then the cookie (`cookie_fix`).
"""

import argparse
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.cli import cookie_fix, output, server_options, settings, where
from bookie.client import cluster as clusters
from bookie.client.repair import forgetting, remains
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import Cookie
from bookie.metadata.paths import MetadataUri
from bookie.ports.metadata_store import ANY_VERSION, MetadataStore, find, find_children

Verb = Callable[[MetadataStore, MetadataUri, argparse.Namespace], Awaitable[int]]
_COLUMNS = {"place": "PLACE", "state": "STATE", "problem": "PROBLEM"}


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    _verb(verbs, "list", "list the bookies that have a cookie", _list)
    _verb(verbs, "show", "show a bookie's cookie and the current incarnation of its volumes", _show, bookie=True)
    check = _verb(
        verbs,
        "check",
        "compare the cookie in the metadata store with a bookie's settings and directories (needs --config)",
        _check,
    )
    generate = _verb(verbs, "generate", "print the cookie that these settings ask for (needs --config)", _generate)
    generate.add_argument("--output", type=Path, metavar="FILE", help="write it to this file (default: stdout)")
    create = _verb(verbs, "create", "put a saved cookie of a bookie back into the metadata store", _create, bookie=True)
    create.add_argument("file", type=Path, metavar="FILE", help="the saved cookie")
    create.set_defaults(judge=_judge_saved)
    for verb in (check, generate):
        verb.set_defaults(judge=_judge_settings)
    delete = _verb(verbs, "delete", "forget a bookie that never returns: delete its cookie", _delete, bookie=True)
    delete.add_argument(
        "--force",
        action="store_true",
        help="delete it although ledgers still name the bookie; the bookie then cannot return without a person",
    )
    fix = _verb(
        verbs,
        "fix",
        "repair a stopped bookie that lost volumes: mark its ledgers, then renew its cookie (needs --config)",
        None,
    )
    fix.set_defaults(run=cookie_fix.run)
    for verb in (create, delete, fix):
        output.add_consent(verb)


def _verb(verbs: Any, name: str, text: str, work: Verb | None, *, bookie: bool = False) -> argparse.ArgumentParser:
    verb = output.add_verb(verbs, name, text, where.add_cluster, output.add_json, run=run, work=work)
    if bookie:
        output.add_bookie(verb)
    return verb


async def run(arguments: argparse.Namespace) -> int:
    work: Verb = arguments.work
    async with where.cluster(arguments) as (store, uri, _):
        return await work(store, uri, arguments)


def _judge_settings(arguments: argparse.Namespace) -> None:
    """Put what the settings say of the bookie beside the arguments. Raises BadInput."""
    if not arguments.config:
        raise errors.BadInput("add --config FILE, the settings file of the bookie whose cookie this is about")
    where.uri_of(arguments)  # refuses two clusters that contradict each other
    output.check_target(getattr(arguments, "output", None))
    arguments.options = server_options.build(settings.load(arguments)).options


def _judge_saved(arguments: argparse.Namespace) -> None:
    """Put the bytes of the saved cookie, which a pipe gives only once, and what they say beside the arguments. Raises
    BadInput."""
    path: Path = arguments.file
    data = output.read(path)
    with output.blamed(path):
        found = cookie.load_cookie(data)
    if found.bookie_id != arguments.bookie:
        raise errors.BadInput(
            f"{path} is the cookie of {found.bookie_id}, not of {arguments.bookie}: name the file that was saved of"
            " this bookie"
        )
    arguments.saved = data, found


# ---- seeing ----------------------------------------------------------------------------------------------------------


async def _list(store: MetadataStore, uri: MetadataUri, arguments: argparse.Namespace) -> int:
    names = await find_children(store, paths.cookies(uri.root))
    output.say(arguments, names, "\n".join(names))
    return 0


async def _show(store: MetadataStore, uri: MetadataUri, arguments: argparse.Namespace) -> int:
    bookie_id: BookieId = arguments.bookie
    stored = await find(store, paths.cookie(uri.root, bookie_id))
    if stored is None:
        raise errors.NodeMissing(
            f"bookie {bookie_id} has no cookie in this cluster; `bookie cluster list-bookies` shows those that have"
        )
    text = stored.data.decode("utf-8", "backslashreplace")
    facts = {**_facts(cookie.load_cookie(stored.data)), "version": stored.version, "text": text}
    record = await find(store, paths.incarnation(uri.root, bookie_id))
    if record is not None:
        life = cookie.load_incarnation(record.data)
        facts |= {"incarnation": life.incarnation, "bootEpoch": life.boot_epoch, "grantId": life.grant_id or None}
    output.say(arguments, facts, output.facts({name: value for name, value in facts.items() if name != "text"}))
    return 0


async def _check(store: MetadataStore, uri: MetadataUri, arguments: argparse.Namespace) -> int:
    master = await _master(store, uri, arguments)
    stored = await find(store, paths.cookie(uri.root, master.bookie_id))
    places: list[tuple[str, bytes | None]] = [("metadata store", None if stored is None else stored.data)]
    for directory in dict.fromkeys((*master.journal_dirs, *master.ledger_dirs, *master.index_dirs)):
        places.append((directory, _version_file(directory)))
    rows = []
    for place, data in places:
        try:
            problem = "" if data is None else cookie.mismatch(master, cookie.load_cookie(data)) or ""
        except errors.BadInput as error:
            problem = str(error)
        state = "missing" if data is None else "differs" if problem else "equal"
        rows.append({"place": place, "state": state, "problem": problem})
    output.rows(arguments, rows, _COLUMNS)
    return 0 if all(row["state"] == "equal" for row in rows) else 1


# ---- making and forgetting -------------------------------------------------------------------------------------------


async def _generate(store: MetadataStore, uri: MetadataUri, arguments: argparse.Namespace) -> int:
    data = cookie.dump_cookie(await _master(store, uri, arguments))
    if arguments.output is not None:
        output.write(arguments.output, data)
        output.say(arguments, {"file": str(arguments.output)}, f"written to {arguments.output}")
    elif arguments.json:
        output.say(arguments, {"text": data.decode()}, "")
    else:
        sys.stdout.write(data.decode())
    return 0


async def _create(store: MetadataStore, uri: MetadataUri, arguments: argparse.Namespace) -> int:
    bookie_id, file, (data, found) = arguments.bookie, arguments.file, arguments.saved
    instance_id = await clusters.instance_id(store, uri.root)
    if found.instance_id != instance_id:
        raise errors.BadInput(
            f"{file} is a cookie of cluster {found.instance_id or '?'}, not of {instance_id or '?'}: name the file that"
            " was saved of this bookie in this cluster"
        )
    path = paths.cookie(uri.root, bookie_id)
    if await find(store, path) is not None:
        raise errors.NodeExists(
            f"bookie {bookie_id} has a cookie already: `bookie cookie show {bookie_id}` shows it for comparison"
        )
    if not output.consents(arguments, [f"plan: make {path}", data.decode("utf-8", "backslashreplace").rstrip()]):
        return 0
    await store.create(path, data, parents=True)
    output.say(arguments, {"bookie": bookie_id, "created": True}, f"bookie {bookie_id} has a cookie again")
    return 0


async def _delete(store: MetadataStore, uri: MetadataUri, arguments: argparse.Namespace) -> int:
    bookie_id: BookieId = arguments.bookie
    await store.sync(uri.root)
    stored = await find(store, paths.cookie(uri.root, bookie_id))
    if where := await forgetting.living(store, uri.root, bookie_id):
        raise errors.GrantRefused("alive", f"a process of bookie {bookie_id} runs ({where}): stop it first")
    left = "" if stored is not None else await remains.of(store, uri.root, bookie_id)
    if stored is None and not left:
        raise errors.NodeMissing(
            f"bookie {bookie_id} has no cookie in this cluster; `bookie cluster list-bookies` shows those that have"
        )
    naming = await _count_naming(store, uri, bookie_id)
    if naming and not arguments.force:
        raise errors.GrantRefused(
            "named",
            f"{naming} ledgers name bookie {bookie_id}: replace it in them first (`bookie cluster decommission` does"
            " both), or add --force",
        )
    what = f"delete the cookie of {bookie_id} (version {stored.version})" if stored else f"forget {bookie_id} ({left})"
    plan = [f"plan: {what}; {naming} ledgers name the bookie", "from then on nobody waits for what its disks hold"]
    if not output.consents(arguments, plan):
        return 0
    try:
        await forgetting.forget(
            store,
            uri.root,
            bookie_id,
            cookie_version=ANY_VERSION if stored is None else stored.version,
            needs_cookie=stored is not None,
        )
    except (errors.VersionConflict, errors.NodeExists, errors.NodeMissing) as error:
        raise errors.GrantRefused("alive", f"records of bookie {bookie_id} changed meanwhile: {error}") from None
    output.say(arguments, {"bookie": bookie_id, "deleted": True}, f"the cookie of {bookie_id} is deleted")
    return 0


# ---- facts -----------------------------------------------------------------------------------------------------------


async def _master(store: MetadataStore, uri: MetadataUri, arguments: argparse.Namespace) -> Cookie:
    """Return the cookie that the settings ask for."""
    options = arguments.options
    instance_id = await clusters.instance_id(store, uri.root)
    storage = options.storage
    return Cookie(options.bookie_id, storage.journal_dirs, storage.ledger_dirs, storage.index_dirs, instance_id)


async def _count_naming(store: MetadataStore, uri: MetadataUri, bookie_id: BookieId) -> int:
    ledgers = await clusters.open_ledgers(store, uri)
    count = 0
    with output.progress("looking at ledgers") as done:
        async for ledger_id in ledgers.iterate():
            done(1)
            try:
                metadata, _ = await ledgers.get(ledger_id)
            except errors.LedgerMissing:
                continue
            except errors.UNREADABLE:
                count += 1  # unreadable: it may name it
                continue
            count += metadata.names(bookie_id)
    return count


def _facts(found: Cookie) -> dict[str, Any]:
    return {
        "bookie": found.bookie_id,
        "instanceId": found.instance_id or None,
        "journalDirs": list(found.journal_dirs),
        "ledgerDirs": list(found.ledger_dirs),
        "indexDirs": list(found.index_dirs),
        "layoutVersion": found.layout_version,
    }


def _version_file(directory: str) -> bytes | None:
    path = Path(directory) / "current" / "VERSION"
    return output.read_if_there(path)
