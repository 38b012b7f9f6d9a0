"""What texts must look like, and that nobody is answered with a regular expression (spec/operator.md#K16)."""

import re
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

import operator_support as make
from bookie_operator.model import base, crd, operation, shapes
from bookie_operator.model.cluster import SpecInvalid
from bookie_operator.model.shapes import TextShape

SHAPES = {name: one for name, one in vars(shapes).items() if isinstance(one, TextShape)}
# (shape, texts that fit, texts that people write and that do not)
TEXTS: list[tuple[str, list[str], list[str]]] = [
    ("QUANTITY", ["0", "1.5Gi", "500m", "100Gi"], ["256MB", "256 Mi", "2GB", "1gi", "1K", "-1Gi", "1e3", "", "1Gi\n"]),
    ("DURATION", ["90s", "1h30m", "0s", "250ms"], ["soon", "90", "1d", "1.5h", "90 s", "-5m", ""]),
    ("TIME", ["2026-11-23T04:00:00Z", "2026-11-23T05:00:00+01:00"], ["tomorrow", "2026-11-23", "2026-11-23 04:00:00Z"]),
    ("POOL_NAME", ["zone-a", "1", "a1"], ["Zone", "zone_a", "-a", "a-", "eu.west", ""]),
    ("VOLUME_NAME", ["ledgers", "l-0"], ["Ledgers", "0", "l-", "l_0", ""]),
    (
        "METADATA_URI",
        ["zk+hierarchical://a:2181;b:2181/ledgers", "zk://a/b/c"],
        ["http://zookeeper", "zookeeper:2181", "zk://a:2181", "zk+hierarchical://a:2181/ledgers/", ""],
    ),
    ("DOMAIN", ["cluster.local", "a"], ["Cluster.Local", ".local", "local.", "a_b", ""]),
    ("SCHEDULE", ["0 2 * * SAT", "*/5 * * * *"], ["@daily", "0 2  * * *", "0 2 * *", "daily"]),
    ("TIME_ZONE", ["UTC", "Europe/Berlin", "Etc/GMT+1"], ["+01:00", "Europe Berlin", "../UTC", ""]),
    ("EVIDENCE", ["0123456789abcdef", "a" * 64], ["0123", "A" * 8, "the disk is empty"]),
    ("LEDGER_ID", ["0", "4711", "9223372036854775807"], ["-1", "007", "1e3", "L1", ""]),
]


def nodes(node: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    out = [(path, node)]
    for name, child in (node.get("properties") or {}).items():
        out += nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            out += nodes(node[key], f"{path}[]")
    return out


def texts(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return [(path, node) for path, node in nodes(schema) if node.get("type") == "string"]


@pytest.mark.parametrize("found", [crd.definition(), crd.operations()], ids=["cluster", "operation"])
def test_no_field_answers_with_a_regular_expression(found: dict[str, Any]) -> None:
    assert [path for path, node in texts(found) if "pattern" in node] == []


@pytest.mark.parametrize(
    ("found", "path", "shape"),
    [
        (crd.definition, ".spec.storage.ledgers.volumes[].size", "QUANTITY"),
        (crd.definition, ".spec.resources.tmpSize", "QUANTITY"),
        (crd.definition, ".spec.repair.copyRate", "QUANTITY"),
        (crd.definition, ".spec.lifecycle.terminationGrace", "DURATION"),
        (crd.definition, ".spec.storage.retention.keepFor", "DURATION"),
        (crd.definition, ".spec.rollout.windows[].duration", "DURATION"),
        (crd.definition, ".spec.rollout.windows[].schedule", "SCHEDULE"),
        (crd.definition, ".spec.rollout.windows[].timeZone", "TIME_ZONE"),
        (crd.definition, ".spec.rollout.ignoreWindowsUntil", "TIME"),
        (crd.definition, ".spec.zones[].name", "POOL_NAME"),
        (crd.definition, ".spec.pools[].name", "POOL_NAME"),
        (crd.definition, ".spec.pools[].zone", "POOL_NAME"),
        (crd.definition, ".spec.storage.index.volumes[].name", "VOLUME_NAME"),
        (crd.definition, ".spec.metadataService.uri", "METADATA_URI"),
        (crd.definition, ".spec.network.clusterDomain", "DOMAIN"),
        (crd.operations, ".spec.target.bookies[].evidence", "EVIDENCE"),
        (crd.operations, ".spec.target.ledgers[]", "LEDGER_ID"),
        (crd.operations, ".spec.evidence", "EVIDENCE"),
        (crd.operations, ".spec.expiresAfter", "DURATION"),
    ],
)
def test_the_api_server_quotes_what_it_refuses_and_says_what_to_write(found: Any, path: str, shape: str) -> None:
    (rule,) = dict(texts(found()))[path]["x-kubernetes-validations"]

    assert rule["rule"] == SHAPES[shape].fits("self")
    assert rule["messageExpression"] == f"""\"'" + self + "' {SHAPES[shape].message}\""""
    assert rule["message"] == f"it {SHAPES[shape].message}"


def test_each_shape_has_its_texts() -> None:
    assert [shape for shape, _, _ in TEXTS] == list(SHAPES)


@pytest.mark.parametrize(("shape", "good", "bad"), TEXTS, ids=list(SHAPES))
def test_the_operator_says_the_same_of_a_spec_under_an_older_crd(shape: str, good: list[str], bad: list[str]) -> None:
    reader: TypeAdapter[str] = TypeAdapter(Annotated[str, SHAPES[shape]])

    assert [reader.validate_python(text) for text in good] == good
    for text in bad:
        with pytest.raises(ValidationError) as caught:
            reader.validate_python(text)
        assert base.sentences(caught.value) == [f"spec: {text!r} {SHAPES[shape].message}"]


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "EVIDENCE"])
def test_a_sentence_has_an_example_that_fits(shape: str) -> None:
    example = SHAPES[shape].message.split("such as ")[1]

    assert any(re.fullmatch(SHAPES[shape].pattern, one) for one in (example.strip("'"), example.split()[0].strip("'")))


def test_a_long_text_is_cut() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(operation.Evidence).validate_python("x" * 64 + "y")
    assert "String should have at most 64" in str(caught.value)

    with pytest.raises(ValueError, match=r"x{64}[.]{3}' is not where a metadata store is"):
        shapes.METADATA_URI.check("x" * 400)


def test_the_field_is_named_with_its_place_in_the_list() -> None:
    storage = make.spec()["storage"] | {"journal": {"volumes": [{"name": "journal", "size": "256MB"}]}}

    with pytest.raises(SpecInvalid, match=r"^spec.storage.journal.volumes.0.size: '256MB' is not an amount: write"):
        make.cluster(storage=storage)


@pytest.mark.parametrize(("said", "wanted"), [(2, "2"), (0, "0"), ("2", "2"), ("500m", "500m")])
@pytest.mark.parametrize("which", ["requests", "limits"])
def test_a_whole_number_is_an_amount_of_a_containers_resource(said: object, wanted: str, which: str) -> None:
    wishes = {"resources": {which: {"cpu": said}}}
    cluster = make.cluster(**wishes, autorecovery={"enabled": True, **wishes})

    assert getattr(cluster.spec.resources, which) == {"cpu": wanted}
    assert getattr(cluster.spec.autorecovery.resources, which) == {"cpu": wanted}


@pytest.mark.parametrize("said", [True, -1, 0.5, None, "two", "2 GB", "1e3", "-1", "", [2]])
def test_what_is_no_amount_is_refused_by_the_field(said: object) -> None:
    with pytest.raises(SpecInvalid, match=r"^spec\.resources\.requests\.cpu: "):
        make.cluster(resources={"requests": {"cpu": said}})
