"""Settings of a bookie: a properties file, then the environment, then flags; each value remembers where it came from.

Names are those of Java's bk_server.conf where it has them. `BOOKIE_<UPPER_SNAKE>` in the environment and
`--kebab-case` on the command line are made from them. Unknown names in a file are told and ignored, so that a Java
bookie's file can be used as it is; unknown flags are errors.
"""

import argparse
import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bookie.base import errors, ids
from bookie.base.units import MIB
from bookie.integrity.options import IntegrityOptions
from bookie.ports import Host
from bookie.ports.network import Address
from bookie.runtime import properties
from bookie.server.options import ServerOptions
from bookie.storage.options import StorageOptions

_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _rate(text: str) -> int | None:
    return None if text in ("", "none", "0") else int(text)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `aliases`: other names it has in bk_server.conf."""

    key: str
    parse: Callable[[str], object]
    default: str
    help: str
    aliases: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"BOOKIE_{_SNAKE.sub('_', self.key).upper()}"

    @property
    def flag(self) -> str:
        return f"--{_SNAKE.sub('-', self.key).lower()}"


SETTINGS = (
    Setting("bookieId", str, "", "name of this bookie in the cluster, for ever; default: advertisedAddress:bookiePort"),
    Setting("bookiePort", int, "3181", "data port"),
    Setting("advertisedAddress", str, "", "host that clients dial; default: this machine's name"),
    Setting("listeningAddress", str, "0.0.0.0", "address to bind"),
    Setting("journalDirectories", _list, "", "journal directories, comma-separated", ("journalDirectory",)),
    Setting("ledgerDirectories", _list, "", "ledger directories, comma-separated"),
    Setting("indexDirectories", _list, "", "index directories; default: the ledger directories"),
    Setting("metadataServiceUri", str, "", "zk+hierarchical://HOST:PORT[;HOST:PORT]/ROOT"),
    Setting("zkTimeout", int, "30000", "session time-out, ms"),
    Setting("journalWriteData", _bool, "true", "false: entries skip the journal; a crash is then healed from peers"),
    Setting("adminPort", int, "3182", "gRPC admin and health port"),
    Setting("metricsPort", int, "9100", "port of /metrics"),
    Setting("zone", str, "", "failure domain of this bookie"),
    Setting("regeneration", str, "gated", "who lets empty volumes take over: gated, manual or local"),
    Setting("volumeProof", str, "none", "kubernetes: volumes must prove to be mounted; none: not checked"),
    Setting("allowSharedFilesystem", _list, "", "directories that may lie on the node's own disk"),
    Setting("copyRateBytesPerSecond", _rate, str(64 * MIB), "limit of repair traffic; none: as fast as it goes"),
    Setting("metadataPatienceMs", int, "120000", "how long to wait at start for a metadata store that does not answer"),
    Setting(
        "openLedgerRereplicationGracePeriod", int, "30000", "silence of a writer before repair recovers its ledger, ms"
    ),
    Setting("shutdownTimeoutMs", int, "8000", "how long the last flush may take after SIGTERM"),
    Setting("nettyMaxFrameSizeBytes", int, str(5 * MIB), "longest frame on the data port"),
    Setting("flushInterval", int, "10000", "a checkpoint at least this often, ms"),
    Setting("gcWaitTime", int, "900000", "between two looks for deleted ledgers, ms"),
    Setting("journalMaxSizeMB", int, "64", "size of a journal file, MiB"),
    Setting("logSizeLimit", int, str(1024 * MIB), "size of an entry log, bytes", ("entryLogSizeLimit",)),
    Setting("dbStorage_writeCacheMaxSizeMb", int, "64", "write cache of one ledger directory, MiB"),
    Setting("diskUsageThreshold", float, "0.95", "read-only above this share of a disk"),
    Setting("logLevel", str, "INFO", "DEBUG, INFO, WARNING or ERROR"),
)
BY_NAME = {name: setting for setting in SETTINGS for name in (setting.key, *setting.aliases)}


@dataclass(frozen=True, slots=True)
class Value:
    """One setting's text and where it came from: "default", a file and line, a variable, a flag."""

    setting: Setting
    text: str
    origin: str

    def parsed(self) -> object:
        try:
            return self.setting.parse(self.text)
        except ValueError as error:
            raise errors.BadInput(f"{self.setting.key} is {self.text!r} ({self.origin}): {error}") from None


class Settings:
    """All values of one process."""

    def __init__(self, values: Mapping[str, Value], warnings: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.values = values
        self.warnings = warnings
        self._environment = environment

    def _get(self, key: str) -> object:
        return self.values[key].parsed()

    def text(self, key: str) -> str:
        return self.values[key].text

    def number(self, key: str) -> int:
        value = self._get(key)
        assert isinstance(value, int)
        return value

    def _names(self, key: str) -> tuple[str, ...]:
        value = self._get(key)
        assert isinstance(value, tuple)
        return value

    @property
    def host(self) -> Host:
        """Facts about where we run. POD_UID comes from the downward API."""
        return Host(name=socket.gethostname(), pod_uid=self._environment.get("POD_UID", ""))

    def address(self, key: str) -> Address:
        """Where to listen for the port named `key`."""
        return Address(self.text("listeningAddress"), self.number(key))

    def server_options(self) -> ServerOptions:
        """Everything a Bookie is told. Raises BadInput with all problems of the first part that has any."""
        self._check_types()
        host = self.text("advertisedAddress").strip() or socket.gethostname()
        rate = self._get("copyRateBytesPerSecond")
        threshold = float(self.text("diskUsageThreshold"))
        missing = [
            key
            for key in ("journalDirectories", "ledgerDirectories", "metadataServiceUri")
            if not self.text(key).strip()
        ]
        if missing:
            raise errors.BadInput(
                f"not set: {', '.join(missing)}. Put them into the file given by --config, or set"
                f" {', '.join(BY_NAME[key].variable for key in missing)}"
            )
        return ServerOptions(
            bookie_id=ids.parse_bookie_id(self.text("bookieId") or f"{host}:{self.number('bookiePort')}"),
            host=host,
            port=self.number("bookiePort"),
            listen_host=self.text("listeningAddress"),
            metadata_uri=self.text("metadataServiceUri"),
            zone=self.text("zone"),
            session_timeout_ms=self.number("zkTimeout"),
            metadata_patience_ms=self.number("metadataPatienceMs"),
            shutdown_timeout_ms=self.number("shutdownTimeoutMs"),
            gc_interval_ms=self.number("gcWaitTime"),
            frame_bytes_max=self.number("nettyMaxFrameSizeBytes"),
            storage=StorageOptions(
                journal_dirs=self._names("journalDirectories"),
                ledger_dirs=self._names("ledgerDirectories"),
                index_dirs=self._names("indexDirectories"),
                journal_write_data=self._get("journalWriteData") is True,
                journal_file_bytes_max=self.number("journalMaxSizeMB") * MIB,
                write_cache_bytes_max=self.number("dbStorage_writeCacheMaxSizeMb") * MIB,
                entry_log_bytes_max=self.number("logSizeLimit"),
                flush_interval_ms=self.number("flushInterval"),
                disk_used_max=threshold,
                disk_used_again=max(threshold - 0.01, 0.01),
            ),
            integrity=IntegrityOptions(
                regeneration=self.text("regeneration"),
                volume_proof=self.text("volumeProof"),
                shared_filesystem_ok=self._names("allowSharedFilesystem"),
                copy_rate_bytes_per_s=rate if isinstance(rate, int) else None,
                open_ledger_grace_ms=self.number("openLedgerRereplicationGracePeriod"),
            ),
        )

    def _check_types(self) -> None:
        problems = []
        for value in self.values.values():
            try:
                value.parsed()
            except errors.BadInput as error:
                problems.append(str(error))
        if problems:
            raise errors.BadInput("; ".join(problems))


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take a file and every setting as a flag."""
    parser.add_argument("--config", metavar="FILE", help="properties file, as Java's bk_server.conf")
    group = parser.add_argument_group("settings", "each also in the file, or as BOOKIE_... in the environment")
    for setting in SETTINGS:
        group.add_argument(setting.flag, dest=setting.key, metavar="VALUE", help=setting.help)


def load(arguments: argparse.Namespace, environment: Mapping[str, str] | None = None) -> Settings:
    """Put together what file, environment and flags say; later ones win. Raises BadInput for a file that cannot be."""
    environment = os.environ if environment is None else environment
    values = {setting.key: Value(setting, setting.default, "default") for setting in SETTINGS}
    warnings: list[str] = []
    if environment.get("POD_UID"):
        # In a pod an unmounted volume looks like an empty one: nothing else may be assumed there.
        values["volumeProof"] = Value(BY_NAME["volumeProof"], "kubernetes", "default where POD_UID is set")
    if getattr(arguments, "config", None):
        for name, text, origin in properties.read(arguments.config):
            found = BY_NAME.get(name)
            if found is None:
                warnings.append(f"{origin}: {name} is not a setting of ours, ignored")
            else:
                values[found.key] = Value(found, text, origin)
    for setting in SETTINGS:
        if environment.get(setting.variable, "") != "":
            values[setting.key] = Value(setting, environment[setting.variable], setting.variable)
        given = getattr(arguments, setting.key, None)
        if given is not None:
            values[setting.key] = Value(setting, given, setting.flag)
    return Settings(values, tuple(warnings), environment)
