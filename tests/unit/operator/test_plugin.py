"""`kubectl bookies` over recorded answers of kubectl: what it prints, how it exits, what its report keeps to itself."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import operator_support as make
from bookie.base.ids import LedgerId
from bookie.ports.admin import BlockedLedger, RepairStatus, State, Verdict
from bookie_operator import plugin
from bookie_operator.model import cluster
from bookie_operator.plugin import KubectlFailed
from bookie_operator.status import render


def held() -> dict[str, Any]:
    return make.stored(make.fleet(make.bookie_case(report=make.report(state=State.HELD, verdict=Verdict.FOREIGN))))


def answers(*manifests: dict[str, Any], **more: str) -> Callable[..., str]:
    """A kubectl that knows these clusters, and `more` by its verb."""

    def run(*words: str) -> str:
        asked = [word for word in words if not word.startswith("-")]
        if "BookieCluster" in asked and asked[-1] == "BookieCluster":
            return json.dumps({"items": list(manifests)})
        if "BookieCluster" in asked:
            return json.dumps(manifests[0])
        for verb, text in more.items():
            if verb in asked or verb in " ".join(asked):
                return text
        raise KubectlFailed(f"the server does not know {' '.join(words)}")

    return run


def test_a_fleet_in_order_is_a_line_a_bookie_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    code = plugin.main(["status"], answers(make.stored()))

    printed = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line.split()[0] for line in printed[2:]] == [case.name for case in make.fleet()]
    assert printed[1].split()[:3] == ["BOOKIE", "STATE", "CONCLUSION"]


def test_a_reader_that_went_away_is_no_failure_that_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """As in `kubectl bookies status | head`."""

    def run(*words: str) -> str:
        raise BrokenPipeError

    with pytest.raises(SystemExit):
        plugin.main(["status", "ledgers"], run)

    assert capsys.readouterr().err == ""


def test_what_is_not_well_is_told_with_its_reason_and_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    code = plugin.main(["status", "ledgers"], answers(held()))

    printed = capsys.readouterr().out
    assert code == 3
    assert "Stalled=True BookieHeld: " in printed
    assert "UpToDate=" not in printed


def test_what_several_conditions_say_in_the_same_words_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    manifest = held()
    same = {"status": "False", "reason": "BookieHeld", "message": "three words only"}
    manifest["status"]["conditions"] = [
        {**one, **(same if one["type"] in ("Ready", "Available") else {})} for one in manifest["status"]["conditions"]
    ]

    plugin.main(["status"], answers(manifest))

    told = [line for line in capsys.readouterr().out.splitlines() if line.endswith("three words only")]
    assert told == ["Ready=False Available=False BookieHeld: three words only"]


def test_what_nobody_has_looked_at_yet_is_not_known_and_exits_with_6(capsys: pytest.CaptureFixture[str]) -> None:
    """A fleet of which no bookie has looked for deleted ledgers yet: the first quarter of an hour."""
    young = make.fleet(make.bookie_case(report=make.report(garbage_held_ledgers=-1)))

    code = plugin.main(["status"], answers(make.stored(young)))

    assert "DeletionHeld=Unknown NotSeen: " in capsys.readouterr().out
    assert code == 6


def test_what_is_amiss_exits_with_3_whatever_else_nobody_saw(capsys: pytest.CaptureFixture[str]) -> None:
    case = make.bookie_case(report=make.report(state=State.HELD, verdict=Verdict.FOREIGN, garbage_held_ledgers=-1))

    assert plugin.main(["status"], answers(make.stored(make.fleet(case)))) == 3
    assert "DeletionHeld=Unknown NotSeen: " in capsys.readouterr().out


def test_a_status_without_conditions_says_nothing_that_is_well() -> None:
    manifest = make.stored()
    manifest["status"]["conditions"] = []

    assert plugin.main(["status"], answers(manifest)) == 6


def test_a_status_of_an_older_generation_is_not_taken_for_the_present(capsys: pytest.CaptureFixture[str]) -> None:
    manifest = make.stored()
    manifest["metadata"]["generation"] += 1

    assert plugin.main(["status"], answers(manifest)) == 3
    assert "has not seen generation" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["status", "why"])
def test_what_a_blind_operator_saw_last_is_not_taken_for_the_present(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = make.stored()
    seen = cluster.parse_status(manifest["status"])
    blind = render.forbidden(seen, 1, "ReadFailed", "GET /api/v1/pods: 503", make.NOW_MS)

    assert plugin.main([verb], answers(make.with_status(blind))) == 3
    assert "they are told as it saw them last" in capsys.readouterr().out


def kept_by_an_operator() -> dict[str, Any]:
    manifest = make.stored()
    manifest["status"]["operator"] = {
        "owner": "bookie-system/bookie-operator",
        "leader": "bookie-operator-7f-x2_4492c5#2",
    }
    return manifest


def a_pod(*, ready: str) -> str:
    return json.dumps({"status": {"conditions": [{"type": "Ready", "status": ready}]}})


@pytest.mark.parametrize("verb", ["status", "why"])
@pytest.mark.parametrize(
    ("pod", "told", "age"),
    [
        ("", "does not run: {} is not there", "what follows is of before"),
        (a_pod(ready="False"), "is not ready: {}", "what follows may be of before"),
    ],
    ids=["gone", "not ready"],
)
def test_nothing_is_well_by_the_word_of_an_operator_that_does_not_run(
    verb: str, pod: str, told: str, age: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = plugin.main([verb], answers(kept_by_an_operator(), **{"bookie-operator-7f-x2": pod}))

    printed = capsys.readouterr().out
    assert code == 3
    where = "pod bookie-operator-7f-x2 in namespace bookie-system"
    assert f"the operator that wrote this {told.format(where)} (kubectl -n bookie-system " in printed
    assert age in printed
    assert "nothing waits" not in printed
    if verb == "why":
        assert printed.endswith("nothing waited then\n")


@pytest.mark.parametrize(("verb", "last"), [("status", "ledgers-zone-c-0"), ("why", "nothing waits")])
def test_an_operator_that_runs_needs_no_word(verb: str, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = plugin.main([verb], answers(kept_by_an_operator(), **{"bookie-operator-7f-x2": a_pod(ready="True")}))

    assert code == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(last)


@pytest.mark.parametrize("verb", ["status", "why"])
def test_who_may_not_see_the_operator_is_told_so(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.main([verb], answers(kept_by_an_operator())) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("whether the operator runs was not seen: the server does not know")


def test_why_says_that_the_operator_has_not_seen_the_edit(capsys: pytest.CaptureFixture[str]) -> None:
    manifest = make.stored()
    manifest["metadata"]["generation"] += 1

    assert plugin.main(["why"], answers(manifest)) == 3
    assert capsys.readouterr().out.startswith("the operator has not seen generation")


def test_why_names_what_stalls_and_nothing_when_nothing_waits(capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.main(["why"], answers(held())) == 3
    assert capsys.readouterr().out.startswith("stalled, BookieHeld: ")
    assert plugin.main(["why"], answers(make.stored())) == 0
    assert capsys.readouterr().out == "nothing waits\n"


def test_why_counts_the_ledgers_that_block_a_repair(capsys: pytest.CaptureFixture[str]) -> None:
    repair = RepairStatus(
        state=State.REPAIRING,
        phase="two",
        ledgers_pending=1,
        blocked=(BlockedLedger(LedgerId(45), "2 of 3 cannot say what they have"),),
    )
    case = make.bookie_case(report=make.report(state=State.REPAIRING), repair=repair)

    assert plugin.main(["why"], answers(make.stored(make.fleet(case)))) == 3
    assert f"{case.name}: 1 of its ledgers are blocked (`bookie integrity status`" in capsys.readouterr().out


def test_why_tells_of_a_bookie_that_does_not_serve_and_of_one_that_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    words = "0/3 nodes are available: " + "a long story of nodes, " * 9 + "and its end"
    down = make.stored(make.fleet(make.unborn(make.bookie_case())))
    entry = down["status"]["bookies"][0] | {"state": "Missing", "reason": "NotScheduled", "message": words}
    leaves = {
        "state": "Draining",
        "since": "2026-11-26T08:00:00Z",
        "ledgersTotal": 9,
        "ledgersLeft": 4,
        "waitingFor": "room",
    }
    down["status"]["bookies"] = [entry, down["status"]["bookies"][1] | {"leaving": leaves}]
    down["status"]["eviction"] = {"waitingFor": "ledgers-zone-a-1 leaves"}

    assert plugin.main(["why"], answers(down)) == 3
    told = capsys.readouterr().out
    assert f"ledgers-zone-a-0 is Missing, NotScheduled: {words}\n" in told
    assert "ledgers-zone-a-1 leaves (Draining, 4 of 9 ledgers left): room\n" in told
    assert "the eviction of pods waits: ledgers-zone-a-1 leaves\n" in told

    plugin.main(["status"], answers(down))
    assert "... (`why` has the rest)" in capsys.readouterr().out


def test_a_name_that_begins_another_one_is_no_reason_to_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    down = held()
    down["status"]["bookies"][1] |= {"name": "ledgers-zone-a", "state": "Missing", "reason": "PodMissing"}

    plugin.main(["why"], answers(down))

    assert "ledgers-zone-a is Missing, PodMissing" in capsys.readouterr().out


def test_why_tells_that_a_cluster_is_paused(capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.main(["why"], answers(make.stored(spec={"lifecycle": {"paused": True}}))) == 3
    assert capsys.readouterr().out.startswith("the cluster is paused")


def test_why_tells_a_held_bookie_once(capsys: pytest.CaptureFixture[str]) -> None:
    plugin.main(["why"], answers(held()))

    assert capsys.readouterr().out.count("ledgers-zone-a-0") == 1


def test_of_several_clusters_one_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.main(["status"], answers(make.stored(), make.stored())) == 1
    assert "name the BookieCluster: there are ledgers, ledgers" in capsys.readouterr().err


def test_kubectls_own_words_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: str) -> str:
        raise KubectlFailed("Error from server (Forbidden): no")

    assert plugin.main(["status"], refuse) == 1
    assert "Forbidden" in capsys.readouterr().err


def test_history_is_a_table_or_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.main(["history"], answers(make.stored())) == 0
    assert capsys.readouterr().out == "no regeneration is remembered\n"


def test_a_report_has_logs_and_objects_and_no_value_of_an_environment_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "a password that somebody put into the environment"
    pod = {"kind": "Pod", "spec": {"containers": [{"env": [{"name": "PASSWORD", "value": secret}]}]}}
    note = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": secret}}
    listed = json.dumps({"items": [pod, {"kind": "Service", "metadata": note}]})
    path = tmp_path / "report.tar.gz"

    code = plugin.main(
        ["report", "ledgers", "-o", str(path)],
        answers(make.stored(), statefulsets=listed, logs="a line of the log\n", events="{}", version="{}"),
    )

    assert code == 0
    with tarfile.open(path) as archive:
        texts = {one.name: archive.extractfile(one).read().decode() for one in archive}  # type: ignore[union-attr]
    assert texts["ledgers/logs/ledgers-zone-a-0.log"] == "a line of the log\n"
    assert "PASSWORD" in texts["ledgers/objects.json"]
    assert "the server does not know" in texts["ledgers/record.json"], "a hole says why it is one"
    assert not [name for name, text in texts.items() if secret in text]
    assert str(path) in capsys.readouterr().out


def test_a_report_says_where_kubectl_printed_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    nothing = {"statefulsets": "{}", "events": "{}", "version": "{}", "logs": ""}

    plugin.main(["report", "-o", str(path), "--operator-namespace", "wrong"], answers(make.stored(), **nothing))

    with tarfile.open(path) as archive:
        found = archive.extractfile("ledgers/operator.log")
        assert found is not None
        text = found.read().decode()
    assert text.startswith("nothing was printed by kubectl --namespace wrong logs")


def test_a_report_never_writes_over_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.tar.gz"
    path.write_text("somebody's")

    assert plugin.main(["report", "-o", str(path)], answers(make.stored())) == 1
    assert path.read_text() == "somebody's"
    assert "exists" in capsys.readouterr().err
