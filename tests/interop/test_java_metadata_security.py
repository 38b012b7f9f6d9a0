"""The official client beside us behind ZooKeeper's SASL and ACLs: one user, one tree, each reads the other's."""

from pathlib import Path

import pytest

import children
import java_support
import local_support
import wait_support
import zookeeper_support
from bookie import blocking, connect
from bookie.base import errors
from bookie.cli import main
from bookie.local import layout
from java_support import JavaClient

pytestmark = pytest.mark.java

PASSWORD = "correct-horse-battery"
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
ONE = {"ensemble": 1, "write": 1, "ack": 1}


def test_java_s_client_and_ours_share_a_tree_that_belongs_to_their_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    java_support.ensure_java()
    server, client = tmp_path / "server.conf", tmp_path / "jaas.conf"
    server.write_text(f'Server {{ {MODULE} user_fleet="{PASSWORD}"; }};\n')
    client.write_text(f'Client {{ {MODULE} username="fleet" password="{PASSWORD}"; }};\n')
    provider = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    jvm = [f"-Djava.security.auth.login.config={server}"]
    bookie = local_support.plan_one(tmp_path)
    with zookeeper_support.running(tmp_path / "zookeeper", settings=provider, jvm=jvm) as zookeeper:
        layout.write_config(bookie, zookeeper.uri, journal_write_data=True, regeneration="gated")
        with bookie.config.open("a") as file:
            file.write(f"zkEnableSecurity=true\nsaslJaasFile={client}\n")
        config = str(bookie.config)
        assert main.main(["cluster", "init", "--config", config]) == 0
        with (tmp_path / "bookie.log").open("ab") as talk:
            process = children.spawn([*local_support.BOOKIE, "serve", "--config", config], stderr=talk)
        try:
            listing = ["cluster", "list-bookies", "--state", "writable", "--json", "--config", config]
            capsys.readouterr()

            def is_registered() -> bool:
                assert main.main(listing) == 0
                return capsys.readouterr().out.strip() != "[]"

            wait_support.wait_until(is_registered, "the bookie is registered", timeout_s=60)
            flag = f"-Djava.security.auth.login.config={client}"
            with (
                JavaClient(zookeeper.uri, tmp_path / "java.log", flags=[flag]) as host,
                host.guest("owner", zkEnableSecurity=True) as java,
                blocking.connect(zookeeper.uri, metadata_security=connect.metadata_security(config)) as ours,
            ):
                made = java.ask("create", **ONE)
                java.append(made["handle"], [b"from java"])
                java.ask("close", handle=made["handle"])
                with ours.open(made["ledger"]) as reader:
                    assert [bytes(entry.payload) for entry in reader.read(0, 0)] == [b"from java"]
                with ours.create(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer:
                    writer.append(b"from us")
                assert java.ask("metadata", ledger=writer.id)["segments"][0]["bookies"] == [bookie.bookie_id]
                main.main(["metadata", "acl", "--json", "--config", config])
                assert capsys.readouterr().out.count("sasl:fleet:cdrwa") == 1
            # Ours, who says no name: Java's client tries again for ever.
            with pytest.raises(errors.MetadataDenied), blocking.connect(zookeeper.uri) as stranger:
                stranger.open(writer.id)
        finally:
            children.end(process, timeout_s=20)
