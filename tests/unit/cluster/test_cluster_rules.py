"""Names, keys and waiting of the cluster tools; nothing here needs a cluster."""

import ipaddress
import itertools
from pathlib import Path

import pytest
import yaml

import cluster
import kube_cache
import kube_engine
import kube_errors
import kube_home
import kube_host
import kube_kind
import kube_load
import kube_logs
import kube_node_image
import kube_parts
import kube_runc_wrapper
import kube_talk
import kube_wait


def test_two_checkouts_never_share_a_cluster(tmp_path: Path) -> None:
    one, other = kube_home.of(tmp_path / "one"), kube_home.of(tmp_path / "other")

    assert one != other
    assert one == kube_home.of(tmp_path / "other" / ".." / "one")


@pytest.mark.parametrize("verb", [["kubectl", "get", "nodes"], ["helm", "list"], ["env"]])
def test_who_asks_a_cluster_that_was_never_made_is_told_how_to_make_it(
    verb: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """kubectl without a kubeconfig asks whoever is at localhost:8080."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CLUSTER", "kind")

    assert cluster.main(verb) == cluster.FAILED
    said = capsys.readouterr()
    assert (said.out, "this checkout has no Kubernetes yet: `make cluster` makes one" in said.err) == ("", True)


def test_the_cluster_of_a_checkout_that_is_gone_is_abandoned_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("there", "gone", "unsaid"):
        home = kube_home.of(tmp_path / name)
        home.folder.mkdir(parents=True)
        if name != "unsaid":
            home.made_for.write_text(str(tmp_path / name))
    (tmp_path / "there").mkdir()

    assert kube_home.abandoned() == [kube_home.of(tmp_path / "gone")]


def test_an_unknown_kind_of_cluster_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "minikube")

    with pytest.raises(kube_errors.ClusterError, match=r"CLUSTER=minikube.*existing"):
        kube_home.mode()


def test_a_key_depends_on_content_and_names_but_not_on_the_place(tmp_path: Path) -> None:
    for folder in ("one", "other", "renamed"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / ("b" if folder == "renamed" else "a")).write_text("content")

    assert kube_cache.key(tmp_path / "one") == kube_cache.key(tmp_path / "other")
    assert kube_cache.key(tmp_path / "one") != kube_cache.key(tmp_path / "renamed")
    assert kube_cache.key("ab", "c") != kube_cache.key("a", "bc")


def test_a_cache_entry_is_made_once_and_a_failed_one_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(path: Path) -> None:
        path.write_text("half", encoding="utf-8")
        raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        kube_cache.entry("part", "k", fail)
    assert not list((tmp_path / "bookie" / "parts").iterdir())

    def succeed(path: Path) -> None:
        path.write_text("whole", encoding="utf-8")

    made = kube_cache.entry("part", "k", succeed)
    assert made.read_text() == "whole"
    assert kube_cache.entry("part", "k", fail) == made


def test_short_image_names_are_expanded_as_kubernetes_expands_them() -> None:
    assert kube_load.reference_of("bookie:dev") == "docker.io/library/bookie:dev"
    assert kube_load.reference_of("team/bookie:dev") == "docker.io/team/bookie:dev"
    assert kube_load.reference_of("registry.test/bookie:dev") == "registry.test/bookie:dev"
    assert kube_load.reference_of("localhost:5000/bookie") == "localhost:5000/bookie"


def test_versions_are_stamped_into_both_version_packages() -> None:
    flags = kube_parts.version_link_flags("v1.34.4")

    assert flags.count("gitVersion=v1.34.4") == 2
    assert flags.count("gitMinor=34") == 2


def test_the_storage_manifest_is_cut_out_of_kinds_source() -> None:
    source = 'const image = "some/image:1"\n\nconst defaultStorageManifest = `\nimage: ` + image + `\nend\n`\n'

    manifest, names = kube_node_image.storage_manifest(source)

    assert manifest == "\nimage: some/image:1\nend\n"
    assert names == ["some/image:1"]


def test_a_missing_capability_is_read_from_the_bounding_set() -> None:
    status = "CapEff:\tffff\nCapBnd:\t000001fffeffffff\n"

    assert kube_host.lacks_capability(status, bit=kube_host.CAP_SYS_RESOURCE)
    assert not kube_host.lacks_capability(status, bit=0)


def test_the_runtime_wrapper_takes_out_what_the_kernel_would_refuse_and_nothing_else() -> None:
    process = {
        "args": ["init"],
        "oomScoreAdj": -500,
        "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"]},
    }

    kept = kube_runc_wrapper.without_refused(process)

    assert kept == {"args": ["init"], "capabilities": {"bounding": ["CAP_CHOWN"]}}
    assert kube_runc_wrapper.without_refused({"oomScoreAdj": 5}) == {"oomScoreAdj": 5}


def test_the_runtime_wrapper_finds_flags_in_both_spellings() -> None:
    assert kube_runc_wrapper.flag_value(["create", "--bundle", "/b", "id"], ("--bundle", "-b")) == "/b"
    assert kube_runc_wrapper.flag_value(["exec", "--process=/p"], ("--process", "-p")) == "/p"
    assert kube_runc_wrapper.flag_value(["state", "id"], ("--bundle", "-b")) is None


def test_a_wait_that_fails_says_what_was_last_seen() -> None:
    def look() -> None:
        raise kube_wait.NotYet("2 of 3 pods")

    with pytest.raises(kube_wait.NeverCame, match=r"three pods.*2 of 3 pods") as caught:
        kube_wait.wait_for("three pods", look, timeout_s=0.0)
    assert caught.value.last_seen == "2 of 3 pods"


def test_a_pod_that_cannot_start_says_why() -> None:
    waiting = {"name": "bookie", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no image"}}}
    pod = {"status": {"phase": "Pending", "containerStatuses": [waiting]}}

    assert kube_logs.why_not_ready(pod) == "container bookie: ErrImageNeverPull no image"
    assert kube_logs.why_not_ready({"status": {"phase": "Succeeded"}}) is None


def test_progress_is_reported_early_and_then_every_half_minute() -> None:
    instants = [kube_talk.QUIET_S]
    while instants[-1] < 120:
        instants.append(kube_talk.next_report_s(instants[-1]))

    assert instants == [2, 5, 10, 20, 30, 60, 90, 120]


def test_nodes_that_got_no_file_watches_say_which_limit_is_too_low(tmp_path: Path) -> None:
    """kind shows the end of kubeadm's stack: the cause stands in a kubelet's log alone."""
    for node, told in (("one-control-plane", "all is well"), ("one-worker", 'err="inotify_init: too many open files"')):
        (tmp_path / node).mkdir()
        (tmp_path / node / "kubelet.log").write_text(f"Started kubelet.service\nE1123 kubelet.go:1687] {told}\n")

    assert "fs.inotify.max_user_instances" in kube_kind.why_no_node_began(tmp_path)
    assert kube_kind.why_no_node_began(tmp_path / "one-control-plane") == ""
    assert kube_kind.why_no_node_began(tmp_path / "never-written") == ""


def test_a_disk_on_which_bookies_would_take_no_writes_is_known_before_they_begin() -> None:
    total_bytes = 250_000_000_000

    assert kube_host.missing_for_bookies(total_bytes=total_bytes, free_bytes=16_000_000_000) == 0
    assert round(kube_host.missing_for_bookies(total_bytes=total_bytes, free_bytes=12_500_000_000) / 1e9, 1) == 2.5


def test_where_there_is_no_ipv6_kind_is_told_of_ipv4_alone_and_of_all_else_as_before() -> None:
    text = kube_kind.CONFIG.read_text()
    told, alone = (yaml.safe_load(one) for one in (text, kube_kind.of_ipv4_alone(text)))

    assert {name: each.count(",") for name, each in told.pop("networking").items() if "Subnet" in name} == {
        "podSubnet": 1,
        "serviceSubnet": 1,
    }
    assert alone.pop("networking") == {
        "ipFamily": "ipv4",
        "podSubnet": "198.19.0.0/17",
        "serviceSubnet": "198.19.128.0/20",
    }
    assert told == alone


def test_the_ranges_of_a_cluster_lie_apart_in_both_families() -> None:
    networking = yaml.safe_load(kube_kind.CONFIG.read_text())["networking"]
    pool = kube_engine.ADDRESS_POOL.partition("base=")[2].partition(",")[0]
    texts = [pool, *(kube_kind.node_subnet(name) for name in ("one", "other"))]
    texts += [part for name in ("podSubnet", "serviceSubnet") for part in networking[name].split(",")]
    ranges = [ipaddress.ip_network(one) for one in texts]

    assert not [
        pair
        for pair in itertools.combinations(ranges, 2)
        if pair[0].version == pair[1].version and pair[0].overlaps(pair[1])
    ]  # type: ignore[arg-type]
