"""Drives a load: what it needs beforehand, warm-up, and rounds in which the sides take turns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import bench_figures
import bench_meanwhile
import bench_proc
import kube_talk
from bench_figures import Round
from bench_loads import READ_ENTRIES, Load
from bench_sides import OwnClient, Side, Sides
from java_support import JavaClient

# A Java process gets faster for its first twenty seconds; client and official bookie are both one.
WARM_UP_S = 16.0  # twice that where three of them share the cores
WARM_UP_NEXT_S = 3.0  # for a load whose kind has run before in these processes
COLD_LEDGERS = {"load": "adds", "size": 1024, "window": 1000, "count": READ_ENTRIES}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long: `rounds` of `seconds` on each side."""

    rounds: int
    seconds: float


def kind(load: Load) -> str:
    """Return what loads share that warm each other up."""
    beside = " beside another" if "beside" in load.question else ""
    return f"{load.question['load']} v{2 if load.question.get('v2') else 3}{beside}"


def measure(load: Load, sides: Sides, plan: Plan) -> dict[str, Any]:
    """Return the load's row."""
    pair = (sides.side(load.ours), sides.side(load.theirs))
    for side in pair:
        _prepare(load, side, sides, plan)
    for side in pair:
        _warm_up(load, side, sides, plan)
    load = _paced(load, pair, sides, plan)
    turns: dict[str, list[Round]] = {side.name: [] for side in pair}
    starts: dict[str, list[float]] = {side.name: [] for side in pair}
    rounds = min(plan.rounds, load.rounds_most or plan.rounds)
    meanwhile = f", beside: {load.meanwhile}" if load.meanwhile else ""
    with kube_talk.step(f"{load.name}: {rounds} rounds of {plan.seconds:g} s on each side{meanwhile}"):
        for number, side in turns_of(pair, rounds):
            question = {**_question(load, side), "seed": number, "seconds": plan.seconds}
            if load.cache == "cold":
                question["ledger"] = side.ledgers["cold"].pop()
                bench_proc.drop_page_cache()
            starts[side.name].append(side.cpu_s())
            turns[side.name].append(_round(load, side, sides, question))
    for side in pair:
        side.note_memory()
        turns[side.name] = _with_late_work(turns[side.name], [*starts[side.name], side.cpu_s()])
    cores = int(bench_proc.describe_machine()["cores"])
    return bench_figures.row(load, turns[load.ours], turns[load.theirs], cores)


def turns_of(pair: tuple[Side, Side], rounds: int) -> list[tuple[int, Side]]:
    """Return the round and the side of each turn. Who was second comes first in the next round: the first of two works
    for the other, too (a client that has just changed its target, caches, a disk that has just rested)."""
    return [(number, side) for number in range(rounds) for side in (reversed(pair) if number % 2 else pair)]


def _paced(load: Load, pair: tuple[Side, Side], sides: Sides, plan: Plan) -> Load:
    """Give a load that wants one the pace at which both sides are asked."""
    if load.share is None:
        return load
    with kube_talk.step(f"{load.name}: how much each side takes"):
        answers = [_ask(load, side, sides, {**_question(load, side), "seconds": plan.seconds}) for side in pair]
    least = min(answer["operations"] / answer["elapsed_s"] for answer in answers)
    return replace(load, question={**load.question, "pace": load.share * least})


def _with_late_work(rounds: list[Round], starts: list[float]) -> list[Round]:
    """Give each round the CPU its bookies used until their next one: what was put off (a flush) is part of its cost."""
    return [
        replace(one, bookie_cpu_s=after - before)
        for one, (before, after) in zip(rounds, itertools.pairwise(starts), strict=True)
    ]


def _prepare(load: Load, side: Side, sides: Sides, plan: Plan) -> None:
    """Write the ledgers that a load of reads wants, and start the bookies anew, so that nothing is cached."""
    if load.cache is None:
        return
    have = {use: len(ledgers) for use, ledgers in side.ledgers.items()}
    wanted = {"warm": 1, "cold": plan.rounds if load.cache == "cold" else 0}
    missing = {use: count - have.get(use, 0) for use, count in wanted.items()}
    if max(missing.values()) <= 0:
        return
    with kube_talk.step(f"{load.name}: writing ledgers to read on {side.name}"):
        for use, count in missing.items():
            for _ in range(count):
                answer = sides.java.ask("bench", uri=side.uri, **COLD_LEDGERS)
                side.ledgers.setdefault(use, []).append(answer["ledgers"][0])
        side.restart()
        side.warmed.clear()


def _question(load: Load, side: Side) -> dict[str, Any]:
    question = {**load.question, "uri": side.uri}
    if load.cache is not None:
        question["ledger"] = side.ledgers["warm"][0]
    return question


def _warm_up(load: Load, side: Side, sides: Sides, plan: Plan) -> None:
    """Let compilers and caches settle. The ledger that is read here is never the cold one."""
    seconds = WARM_UP_NEXT_S if kind(load) in side.warmed else WARM_UP_S * (2 if len(side.pids) > 1 else 1)
    seconds = min(seconds, 4 * plan.seconds)  # short looks are short
    side.warmed.add(kind(load))
    question = {**_question(load, side), "once": False}
    with kube_talk.step(f"{load.name}: warming up {side.name}"):
        if load.cache is not None:  # all of it, in order: this is what "warm" means
            sequence = {
                **question,
                "load": "reads",
                "pace": 0,
                "random": False,
                "batch": 100,
                "window": 10,
                "once": True,
            }
            sequence.pop("beside", None)
            _ask(load, side, sides, sequence)
        _ask(load, side, sides, {**question, "seconds": seconds})


def _ask(load: Load, side: Side, sides: Sides, question: dict[str, Any]) -> dict[str, Any]:
    """Ask our client if the load is about it and the side is ours (now, or then), Java's otherwise."""
    return _client(load, side, sides).ask("bench", **question)


def _client(load: Load, side: Side, sides: Sides) -> OwnClient | JavaClient:
    return sides.own_client(side) if load.has_own_client and not side.is_official else sides.java


def _round(load: Load, side: Side, sides: Sides, question: dict[str, Any]) -> Round:
    """One turn of one side. Its bookies' CPU seconds are filled in once it is over (`_with_late_work`)."""
    client = _client(load, side, sides)
    event = bench_meanwhile.prepared(load.meanwhile, side, sides.java) if load.meanwhile else None
    before, client_s = bench_proc.Sample.take(side.pids), bench_proc.cpu_s(client.pid)
    read_before = side.read_bytes()
    if event is None:
        answer, seen = client.ask("bench", **question), {}
    else:
        answer, seen = bench_meanwhile.under_load(event, question, sides.java)
    after = bench_proc.Sample.take(side.pids)
    return Round(
        operations=answer["operations"],
        elapsed_s=answer["elapsed_s"],
        p50_ms=answer["p50_us"] / 1000,
        p99_ms=answer["p99_us"] / 1000,
        p999_ms=answer["p999_us"] / 1000,
        client_cpu_s=bench_proc.cpu_s(client.pid) - client_s,
        bookie_cpu_s=0.0,
        disk_bytes=side.read_bytes() - read_before,
        beside_p99_ms=answer.get("beside_p99_us", 0) / 1000,
        **seen,
        **before.shares_until(after),
    )
