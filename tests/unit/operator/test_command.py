"""The command line: crds, render, plan on recorded objects; the crash hook; options that report all problems."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import operator_support as make
import pages_support
from bookie.base.errors import BadInput
from bookie.runtime import given_file
from bookie_operator import __main__ as command
from bookie_operator import offline
from bookie_operator.crash import CrashPoint
from bookie_operator.model import crd, names, operation
from bookie_operator.options import OperatorOptions

ROOT = Path(__file__).resolve().parents[3]


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(path)


def test_crds_prints_the_crd(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["crds"]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == [crd.definition(), crd.operations()]


def test_crds_writes_files(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()

    assert command.main(["crds", "--output", str(folders[0]), "--output", str(folders[1])]) == 0

    for folder in folders:
        assert {one.name: one.read_text() for one in folder.iterdir()} == crd.texts()


OURS = [found for found in pages_support.manifests() if names.API_VERSION in found[1]]


@pytest.mark.parametrize("found", OURS, ids=lambda found: found[0])
def test_each_manifest_that_we_print_means_something(tmp_path: Path, found: tuple[str, str]) -> None:
    """Every file of `examples/` and every block of the pages; the real API server takes them too (`tests/e2e`)."""
    (one,) = offline.items(yaml.safe_load_all(found[1]))

    assert offline.unknown([one]) == []
    if one["kind"] == names.OPERATION_KIND:
        assert operation.parse(one).problem == ""
    else:
        assert command.main(["render", write(tmp_path / "printed.yaml", one)]) == 0


def test_the_example_renders(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["render", str(ROOT / "examples" / "bookiecluster.yaml")]) == 0

    kinds = [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds.count("StatefulSet") == 3


def test_a_bad_file_is_a_sentence_and_exit_code_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["render", write(tmp_path / "bad.yaml", make.manifest(replicas=1))]) == 2
    assert "spec.replicas is less than" in capsys.readouterr().err
    wrong = make.manifest(config={"flushInterval": "soon"})
    assert command.main(["render", write(tmp_path / "config.yaml", wrong)]) == 2
    assert "flushInterval is 'soon'" in capsys.readouterr().err
    assert command.main(["render", write(tmp_path / "none.yaml", {"kind": "Pod", "metadata": {}})]) == 2
    assert "none.yaml must have one BookieCluster, and it has 0 (beside Pod)" in capsys.readouterr().err
    assert command.main(["render", str(tmp_path / "absent.yaml")]) == 2


SPEC = make.manifest()["spec"]
VOLUME = {"name": "a", "size": "1Gi"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"spec": {**SPEC, "confg": {}}},
            "spec.confg is no field of a BookieCluster: is config meant? (`kubectl explain bookiecluster.spec` lists"
            " those that there are)\n",
        ),
        ({"sepc": {}}, "sepc is no field of a BookieCluster: is spec meant? (`kubectl explain bookiecluster` lists"),
        (
            {"spec": {**SPEC, "zones": [{"name": "a", "nodeSelectr": {}}]}},
            "spec.zones.0.nodeSelectr is no field of a BookieCluster: is nodeSelector meant? (`kubectl"
            " explain bookiecluster.spec.zones`",
        ),
        (
            {"spec": {**SPEC, "zones": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}},
            "spec.zones names a twice: leave one out, or give it another name\n",
        ),
        (
            {"spec": {**SPEC, "storage": {"ledgers": {"volumes": [VOLUME, VOLUME]}}}},
            "spec.storage.ledgers.volumes names a twice: leave one out",
        ),
        (
            {"apiVersion": "bookie.dev/v1"},
            "is 'bookie.dev/v1', and this release knows bookie.dev/v1alpha1 alone: write",
        ),
        ({"spec": {**SPEC, "replicas": 0}}, "spec.replicas: it must be greater than or equal to 1, and it is 0\n"),
        (
            {"spec": {**SPEC, "repair": {"regeneration": "gated"}}},
            "spec.repair.regeneration: it must be 'Gated', 'Manual' or 'BookieLocal', and it is 'gated'\n",
        ),
        ({"spec": {**SPEC, "zones": []}}, "spec.zones: it must have 1 or more, and has 0\n"),
        (
            {"spec": {**SPEC, "zones": [{}]}},
            "bookie-operator: spec.zones.0.name is missing: add it (`kubectl explain bookiecluster.spec.zones.name`"
            " says what it is, and examples/ shows it)\n",
        ),
        (
            {"spec": {**SPEC, "replicas": "x"}},
            "bookie-operator: spec.replicas: it must be a whole number, and it is 'x'\n",
        ),
        ({"spec": {**SPEC, "zones": 5}}, "bookie-operator: spec.zones: it must be a list, and it is 5\n"),
        (
            {"spec": {**SPEC, "metadataService": 5}},
            "bookie-operator: spec.metadataService: it must have fields of its own, and it is 5\n",
        ),
        (
            {"spec": {**SPEC, "metadataService": {"uri": 5}}},
            "bookie-operator: spec.metadataService.uri: it must be text (in quotes), and it is 5\n",
        ),
        ({"kind": "Bookiecluster"}, "wrong.yaml must have one BookieCluster, and it has 0 (beside Bookiecluster): add"),
    ],
)
def test_what_an_api_server_would_refuse_or_drop_is_refused_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], said: str
) -> None:
    """A mistyped field was left out without a word, and the default rendered in its place."""
    assert command.main(["render", write(tmp_path / "wrong.yaml", {**make.manifest(), **change})]) == 2

    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert said in told.err


@pytest.mark.parametrize("verb", ["render", "plan"])
@pytest.mark.parametrize("metadata", [None, {}, {"namespace": "data"}])
def test_a_manifest_without_a_name_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, metadata: object
) -> None:
    assert command.main([verb, write(tmp_path / "unnamed.yaml", {**make.manifest(), "metadata": metadata})]) == 2

    said = "bookie-operator: metadata.name of a BookieCluster is missing: give it one\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("bookieoperation*.yaml")), ids=lambda path: path.stem)
def test_an_operation_is_planned_before_an_api_server_has_named_it(tmp_path: Path, path: Path) -> None:
    cluster = ROOT / "examples" / "bookiecluster.yaml"
    documents = [one for each in (cluster, path) for one in yaml.safe_load_all(each.read_text(encoding="utf-8"))]

    assert any("generateName" in one["metadata"] for one in documents)
    assert command.main(["plan", write(tmp_path / "asked.yaml", *documents)]) == 0


def test_a_plan_says_which_fields_it_does_not_know_and_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Live objects may be of a newer CRD than this release's."""
    newer = {**make.manifest(), "spec": {**SPEC, "tomorrow": 1}}
    restart = make.operation_manifest()
    restart["spec"]["typ"] = "Restart"

    assert command.main(["plan", write(tmp_path / "newer.yaml", newer, restart)]) == 0

    told = capsys.readouterr()
    assert "disruption budget" in told.out
    assert "bookie-operator: careful: spec.tomorrow is no field of a BookieCluster" in told.err
    assert "careful: spec.typ is no field of a BookieOperation: is type meant?" in told.err


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "cannot be read: Is a directory: name another file"),
        (b"", "file.yaml must have one BookieCluster, and it has 0: add"),
        (b"a: \xff\n", "is no text in UTF-8: name the right file"),
        (b"a: [\n", "is no YAML (while parsing a flow node expected the node content"),
        (b"text\n", "holds something else than objects of Kubernetes: name a manifest"),
        (b"- kind: BookieCluster\n", "holds something else than objects of Kubernetes"),
        (b"kind: List\nitems: 7\n", "holds something else than objects of Kubernetes"),
        (b"kind: List\nitems: [7]\n", "holds something else than objects of Kubernetes"),
    ],
)
@pytest.mark.parametrize("verb", ["render", "plan"])
def test_what_is_no_manifest_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, data: bytes | None, said: str
) -> None:
    path = tmp_path
    if data is not None:
        path = tmp_path / "file.yaml"
        path.write_bytes(data)

    assert command.main([verb, str(path)]) == 2

    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert said in told.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("- <&-", "standard input cannot be read: it is closed: name another file"),
        ("- 0>/dev/null", "standard input cannot be read: it is open only for writing: name another file"),
        ("- </dev/zero", "standard input cannot be read: it has more than 16 MiB, so it is another kind of file: name"),
        ("/dev/zero", "/dev/zero cannot be read: it has more than 16 MiB, so it is another kind of file: name"),
    ],
)
def test_an_input_that_is_none_is_told_in_one_sentence(given: str, said: str) -> None:
    # Bounded: one that reads an endless input to its end would take the machine's memory, and others with it.
    shell = ["sh", "-c", f'ulimit -v 2000000; exec "$0" -m bookie_operator plan {given}', sys.executable]
    done = subprocess.run(shell, capture_output=True, timeout=120, check=False, text=True)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert said in done.stderr


def test_a_pipe_that_nobody_writes_to_is_told_and_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_file, "PATIENCE_S", 0.01)
    os.mkfifo(tmp_path / "pipe")

    assert command.main(["plan", str(tmp_path / "pipe")]) == 2

    assert "pipe cannot be read: it is a pipe, and nobody wrote it to its end" in capsys.readouterr().err


def recorded() -> list[dict[str, Any]]:
    """A bookie that waits for a grant, as `kubectl get -o yaml` and `grpcurl` tell it."""
    labels = {"bookie.dev/cluster": "ledgers"}
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "ledgers-zone-a-0",
            "namespace": "data",
            "uid": "pod-1",
            "labels": labels,
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    report = {
        "bookieId": "data.ledgers.zone-a.0",
        "podUid": "pod-1",
        "state": "WAITING_GRANT",
        "verdict": "LOST",
        "metadataReachable": True,
        "cookiePresent": True,
        "incarnation": "1",
        "volumes": [
            {"name": name, "role": name, "mount": {"proof": "PROVEN"}, "contents": "EMPTY"}
            for name in ("journal", "ledgers", "index")
        ],
    }
    claims = [
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{name}-ledgers-zone-a-0",
                "namespace": "data",
                "uid": name,
                "labels": labels,
                "creationTimestamp": "2027-01-15T07:59:00Z",
            },
            "spec": {"volumeName": f"pv-{name}"},
        }
        for name in ("journal", "ledgers", "index")
    ]
    listed = {"kind": "List", "items": [pod, *claims]}
    return [make.manifest(), listed, {"kind": "StorageReport", "address": "10.0.0.1:3182", "report": report}]


def test_plan_explains_a_recorded_situation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", write(tmp_path / "situation.yaml", *recorded())]) == 0

    told = capsys.readouterr().out
    assert "ledgers-zone-a-0: Suspected (LostVolume/EmptyVolume)" in told
    assert "ledgers-zone-b-0: Provisioning" in told
    assert "would apply Service ledgers-bookies" in told
    assert "maxUnavailable=0" in told


def test_plan_gives_the_status_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", "--json", write(tmp_path / "situation.yaml", *recorded())]) == 0
    assert '"state": "Suspected"' in capsys.readouterr().out


def test_plan_says_what_it_would_make_of_operations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "ledgers-zone-a-0"  # its pod is younger than the operation
    restart, stranger = make.operation_manifest(), make.operation_manifest("not-ours", clusterRef={"name": "other"})

    assert command.main(["plan", write(tmp_path / "all.yaml", *recorded(), restart, stranger)]) == 0

    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("operation")]
    assert len(told) == 1
    assert told[0].startswith(f"operation restart: Running {name} is Suspected")


def test_the_example_operation_is_one() -> None:
    manifest = yaml.safe_load((ROOT / "examples" / "bookieoperation.yaml").read_text())

    found = operation.parse(manifest | {"metadata": {"name": "made"}})

    assert (found.problem, found.spec is not None) == ("", True)


def test_a_recording_cannot_be_written() -> None:
    for write_call in ("apply", "create", "replace", "delete", "grant"):
        assert not hasattr(offline.Recording, write_call)


def test_the_crash_hook_strikes_once_after_the_right_write(tmp_path: Path) -> None:
    died: list[int] = []

    def live() -> CrashPoint:
        return CrashPoint(2, str(tmp_path), died.append)

    first, second = live(), live()
    for _ in range(3):
        first.after_write("status")
    for _ in range(3):
        second.after_write("status")

    assert died == [137]


def test_the_crash_hook_is_off_by_default(tmp_path: Path) -> None:
    died: list[int] = []
    hook = CrashPoint(0, str(tmp_path), died.append)

    for _ in range(50):
        hook.after_write("status")

    assert (died, list(tmp_path.iterdir())) == ([], [])


def test_options_report_all_problems_together() -> None:
    with pytest.raises(BadInput) as caught:
        OperatorOptions(namespace="", identity="", http_port=70_000, crash_after=-1)

    for word in ("POD_NAMESPACE", "POD_NAME", "70000", "CRASH_AFTER"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"selector": "team in (red"}, "--selector 'team in (red' selects no labels"),
        ({"watch_namespaces": ("data", "*")}, "--watch-namespace '*' is no name of a namespace"),
        ({"watch_namespaces": ("data,logs",)}, "--watch-namespace 'data,logs'"),
        ({"watch_namespaces": ("",)}, "--watch-namespace ''"),
        ({"image": "bookie next"}, "--image 'bookie next' is not the name of an image"),
    ],
)
def test_an_option_that_would_leave_the_operator_blind_or_its_bookies_without_an_image_is_refused(
    wrong: dict[str, Any], told: str
) -> None:
    """It began, and was told "400 Bad Request" by each list, or looked into whichever namespaces a glob fits."""
    assert OperatorOptions(namespace="a", identity="b", selector="team=red", image="r:5000/bookie@sha256:" + "0" * 64)

    with pytest.raises(BadInput) as caught:
        OperatorOptions(namespace="a", identity="b", **wrong)

    assert told in str(caught.value)


@pytest.mark.parametrize(("how", "level"), [("--log-level=LOUD", "LOUD"), ("--log-level=", "")])
def test_a_log_level_that_nobody_knows_is_usage_and_names_those_there_are(
    capsys: pytest.CaptureFixture[str], how: str, level: str
) -> None:
    """It was a stack trace."""
    with pytest.raises(SystemExit) as ended:
        command.main(["run", "--namespace=a", how])

    assert ended.value.code == 2
    assert f"{level!r} is no level: give one of DEBUG, INFO, WARNING, ERROR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["crds", "--output", ""], "an empty word stands behind --output: name a folder"),
        (
            ["crds", "--output", "/dev/null"],
            "/dev/null/bookieclusters.yaml cannot be written: Not a directory: name anoth",
        ),
        (
            ["crds", "--output", "/nowhere"],
            "/nowhere/bookieclusters.yaml cannot be written: No such file or directory: n",
        ),
    ],
)
def test_a_word_that_cannot_be_meant_is_told_in_one_sentence(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert command.main(words) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_a_level_of_the_environment_is_judged_as_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_LEVEL", "loud")

    with pytest.raises(SystemExit) as ended:
        command.main(["run"])

    assert ended.value.code == 2
    assert "'loud' is no level" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "three", "1.5", "9" * 5000])
def test_a_number_of_a_write_that_is_none_is_told_in_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """It was a stack trace."""
    monkeypatch.setenv("BOOKIE_OPERATOR_CRASH_AFTER", text)

    assert command.main(["run", "--namespace=a"]) == 2

    told = capsys.readouterr().err
    assert told == (
        f"bookie-operator: BOOKIE_OPERATOR_CRASH_AFTER is {text[:40]!r}: give 0 (never) or the number of a write\n"
    )
