"""Every setting of a bookie: its name (Java's, where bk_server.conf has it), how its text is read, its default.

`BOOKIE_<UPPER_SNAKE>` in the environment and `--kebab-case` on the command line are made from the name."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from bookie.base.units import GIB, KIB, MIB

DIRECTORIES = ("journalDirectories", "ledgerDirectories", "indexDirectories")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
PORT_MAX = (1 << 16) - 1
# A length on the wire is a signed number of four bytes.
_FRAME_MAX = (1 << 31) - 1
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def split_list(text: str) -> tuple[str, ...]:
    """The items between commas, without the blanks around them."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _level(text: str) -> str:
    if text.upper() not in LOG_LEVELS:
        raise ValueError(f"one of {', '.join(LOG_LEVELS)}")
    return text.upper()


def _phase_one(text: str) -> str:
    if text not in ("scan", "bound"):
        raise ValueError("scan or bound")
    return text


def _rate(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal()) and text != "none":
        raise ValueError("none or a whole number")
    return None if text in ("none", "0") else int(text)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `aliases`: other names it has in bk_server.conf. `least` and `most`: the bounds of a number,
    inclusive. `is_live`: a running bookie takes another value (bookie/server/live.py).
    No setting holds a secret: every text may be shown, since passwords stand in files that settings name."""

    key: str
    parse: Callable[[str], object]
    default: str
    help: str
    aliases: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    is_live: bool = False

    @property
    def variable(self) -> str:
        return f"BOOKIE_{_SNAKE.sub('_', self.key).upper()}"

    @property
    def flag(self) -> str:
        return f"--{_SNAKE.sub('-', self.key).lower()}"


SETTINGS = (
    # ---- who it is -------------------------------------------------------------------------------------------------
    Setting("bookieId", str, "", "name of this bookie in the cluster, for ever; default: its address and bookiePort"),
    Setting("bookiePort", int, "3181", "data port", least=0, most=PORT_MAX),
    Setting("advertisedAddress", str, "", "host that clients dial; default: this machine's address"),
    Setting("useHostNameAsBookieID", _bool, "false", "without advertisedAddress: this machine's name, not its address"),
    Setting("useShortHostName", _bool, "false", "with useHostNameAsBookieID: the name up to its first dot"),
    Setting("listeningInterface", str, "", "network interface whose address this bookie has and binds"),
    Setting("allowLoopback", _bool, "false", "this machine's address may be a loopback one (a fleet on one machine)"),
    Setting(
        "listeningAddress",
        str,
        "",
        "address that the ports bind; default: that of listeningInterface, or all addresses",
    ),
    Setting("zone", str, "", "failure domain of this bookie"),
    Setting(
        "machine",
        str,
        "",
        "name of the machine that this bookie shares with other bookies: clients put no two copies of an entry there",
    ),
    Setting("permittedStartupUsers", split_list, "", "users that may start this bookie; default: all"),
    # ---- the metadata store ----------------------------------------------------------------------------------------
    Setting("metadataServiceUri", str, "", "zk+hierarchical://HOST:PORT[;HOST:PORT]/ROOT"),
    Setting("zkServers", str, "", "the older way to say metadataServiceUri: HOST:PORT[,HOST:PORT]"),
    Setting("zkLedgersRootPath", str, "/ledgers", "with zkServers: the cluster's root"),
    Setting(
        "ledgerManagerFactoryClass",
        str,
        "",
        "with zkServers: the ledger layout; default: the layout that the cluster has",
        ("ledgerManagerType",),
    ),
    Setting("zkTimeout", int, "30000", "time-out of the session with the metadata store, ms", least=1),
    Setting(
        "answersUnderLease",
        _bool,
        "false",
        "answer no client once the metadata session may have ended; for Java's clients",
    ),
    Setting(
        "zkEnableSecurity",
        _bool,
        "false",
        "nobody but this bookie's user may read or change what it makes in ZooKeeper",
    ),
    Setting("zkJaasFile", str, "", "file with the user for ZooKeeper (SASL DIGEST-MD5); default: saslJaasFile"),
    Setting(
        "zkJaasSectionName",
        str,
        "Client",
        "section of zkJaasFile with username and password",
        ("zookeeper.sasl.clientconfig",),
    ),
    Setting("zkDigestFile", str, "", "file with USER:PASSWORD for ZooKeeper's scheme digest"),
    Setting("zkTlsEnabled", _bool, "false", "TLS to ZooKeeper, on its secureClientPort", ("zookeeper.client.secure",)),
    Setting(
        "zkTlsTrustStore",
        str,
        "",
        "file with the certificates to trust in ZooKeeper; default: the system's",
        ("zookeeper.ssl.trustStore.location",),
    ),
    Setting(
        "zkTlsTrustStoreType",
        str,
        "",
        "PEM, JKS or PKCS12; default: by its name, else PEM",
        ("zookeeper.ssl.trustStore.type",),
    ),
    Setting(
        "zkTlsTrustStorePasswordPath",
        str,
        "",
        "file with the password of zkTlsTrustStore",
        ("zookeeper.ssl.trustStore.passwordPath",),
    ),
    Setting(
        "zkTlsKeyStore",
        str,
        "",
        "file with this bookie's key, where ZooKeeper asks for a certificate",
        ("zookeeper.ssl.keyStore.location",),
    ),
    Setting(
        "zkTlsKeyStoreType",
        str,
        "",
        "PEM, JKS or PKCS12; default: by its name, else PEM",
        ("zookeeper.ssl.keyStore.type",),
    ),
    Setting(
        "zkTlsKeyStorePasswordPath",
        str,
        "",
        "file with the password of zkTlsKeyStore",
        ("zookeeper.ssl.keyStore.passwordPath",),
    ),
    Setting("zkTlsCertificatePath", str, "", "file with the certificate, where zkTlsKeyStore (PEM) is the key alone"),
    Setting(
        "zkTlsHostnameVerificationEnabled",
        _bool,
        "true",
        "ZooKeeper's certificate must name its host",
        ("zookeeper.ssl.hostnameVerification",),
    ),
    Setting(
        "metadataPatienceMs",
        int,
        "120000",
        "how long a starting bookie waits for a metadata store that does not answer, ms",
        least=1,
    ),
    # ---- directories -----------------------------------------------------------------------------------------------
    Setting("journalDirectories", split_list, "", "journal directories, comma-separated", ("journalDirectory",)),
    Setting("ledgerDirectories", split_list, "", "ledger directories, comma-separated"),
    Setting("indexDirectories", split_list, "", "index directories; default: the ledger directories"),
    Setting(
        "volumeProof",
        str,
        "none",
        "kubernetes: start only when each volume is proven to be mounted; none: do not check",
    ),
    Setting(
        "allowStorageExpansion",
        _bool,
        "false",
        "true: add empty directories that are new at the end of ledgerDirectories and indexDirectories",
    ),
    Setting("allowSharedFilesystem", split_list, "", "directories that may lie on the node's own disk"),
    # ---- journal and storage ---------------------------------------------------------------------------------------
    Setting(
        "journalWriteData",
        _bool,
        "true",
        "false: entries skip the journal; what a crash loses is copied back from other bookies",
    ),
    Setting(
        "touchUnjournaledLedgers",
        _bool,
        "false",
        "with journalWriteData=false: the journal names ledgers whose entries are in memory; after a crash only those"
        " are in doubt",
    ),
    Setting(
        "journalMaxSizeMB",
        int,
        "64",
        "a journal file that has reached this size is followed by a new one, MiB",
        least=1,
    ),
    Setting("flushInterval", int, "10000", "longest time between two checkpoints, ms", least=1),
    Setting(
        "logSizeLimit",
        int,
        str(1024 * MIB),
        "an entry log that has reached this size is followed by a new one, bytes",
        ("entryLogSizeLimit",),
        least=4 * KIB,
        most=2 * GIB,
    ),
    Setting(
        "dbStorage_writeCacheMaxSizeMb",
        int,
        "",
        "memory for entries not yet in logs, of all ledger directories together, MiB; default: 80 for each",
        least=1,
    ),
    Setting(
        "dbStorage_readAheadCacheMaxSizeMb",
        int,
        "",
        "memory for entries read ahead, of all ledger directories together, MiB; 0: none; default: 64 for each",
        least=0,
    ),
    Setting("gcWaitTime", int, "900000", "time between two searches for deleted ledgers, ms", least=1),
    Setting(
        "gcDailyShareMax",
        float,
        "0.1",
        "largest share of its ledgers that garbage collection deletes a day without a person; 1: no limit",
        least=0,
        most=1,
    ),
    Setting(
        "gcDailyLedgersMin",
        int,
        "10",
        "so many ledgers a day garbage collection may always delete, whatever gcDailyShareMax says",
        least=0,
    ),
    Setting(
        "gcOverreplicatedLedgers",
        _bool,
        "false",
        "true: delete entries of closed ledgers whose records name this bookie no more; older versions then refuse the"
        " directories (docs/STORAGE.md)",
    ),
    Setting(
        "gcOverreplicatedLedgerWaitTime",
        int,
        "86400000",
        "with gcOverreplicatedLedgers: how long a ledger must have been so, and nothing have come for it, ms; an hour"
        " at least",
        least=0,
    ),
    Setting(
        "minorCompactionThreshold",
        float,
        "0.2",
        "minor compaction rewrites entry logs with a smaller share of live bytes than this; 0: never",
    ),
    Setting("minorCompactionInterval", int, "3600", "seconds between two minor compactions; 0: never"),
    Setting("minorCompactionMaxTimeMillis", int, "-1", "longest time of one minor compaction, ms; -1: no limit"),
    Setting(
        "majorCompactionThreshold",
        float,
        "0.8",
        "major compaction rewrites entry logs with a smaller share of live bytes than this; 0: never",
    ),
    Setting("majorCompactionInterval", int, "86400", "seconds between two major compactions; 0: never"),
    Setting("majorCompactionMaxTimeMillis", int, "-1", "longest time of one major compaction, ms; -1: no limit"),
    Setting(
        "compactionRateByEntries",
        int,
        "1000",
        "most entries that compaction rewrites per second; counts only with isThrottleByBytes=false",
        ("compactionRate",),
    ),
    Setting(
        "compactionRateByBytes",
        int,
        "1000000",
        "most bytes that compaction rewrites per second; counts only with isThrottleByBytes=true",
    ),
    Setting(
        "isThrottleByBytes",
        _bool,
        "false",
        "true: compactionRateByBytes limits compaction; false: compactionRateByEntries does",
    ),
    Setting(
        "forceAllowCompaction",
        _bool,
        "false",
        "a compaction that you ask for runs even if its kind (minor, major) is switched off",
    ),
    Setting("isForceGCAllowWhenNoSpace", _bool, "false", "a compaction that you ask for runs even if the disk is full"),
    Setting(
        "localScrubInterval",
        int,
        str(7 * 24 * 3600),
        "seconds between two checks of all entries; 0: only when you ask for one",
        least=0,
    ),
    Setting("localScrubRateLimit", int, "", "entries checked per second; default: no limit", least=1, is_live=True),
    Setting("scrubRateBytesPerSecond", _rate, str(8 * MIB), "bytes checked per second; none: no limit", is_live=True),
    Setting("diskUsageThreshold", float, "0.95", "the bookie turns read-only when a disk is fuller than this share"),
    Setting("diskUsageWarnThreshold", float, "", "only minor compaction above this share; default: 0.90 at most"),
    Setting("diskUsageLwmThreshold", float, "", "writable again below this share; default: 0.01 below the threshold"),
    # ---- read-only -------------------------------------------------------------------------------------------------
    Setting("forceReadOnlyBookie", _bool, "false", "always read-only; nobody can make this bookie writable"),
    Setting("persistBookieStatusEnabled", _bool, "false", "a read-only mode that a person set outlives a restart"),
    Setting("readOnlyModeEnabled", _bool, "true", "must be true: a full disk makes a bookie read-only, never ends it"),
    # ---- repair ----------------------------------------------------------------------------------------------------
    Setting("regeneration", str, "gated", "who allows the repair of lost volumes: gated, manual or local"),
    Setting(
        "phaseOne", _phase_one, "scan", "after lost volumes: scan every ledger first, or bound: doubt all, and serve"
    ),
    Setting(
        "copyRateBytesPerSecond",
        _rate,
        str(64 * MIB),
        "most bytes per second that a repair copies; none: no limit",
        least=1024,
        is_live=True,
    ),
    Setting(
        "fillHolesAfterBoot",
        _bool,
        "true",
        "after each start, fetch what was written while this bookie was away, within copyRateBytesPerSecond",
    ),
    Setting(
        "openLedgerRereplicationGracePeriod",
        int,
        "30000",
        "how long a writer must be silent before a repair recovers its open ledger, ms",
        least=0,
    ),
    Setting(
        "autoRecoveryDaemonEnabled",
        _bool,
        "false",
        "keep the cluster's replicas whole from within this process too, within copyRateBytesPerSecond to each bookie",
    ),
    Setting(
        "lostBookieRecoveryDelay",
        int,
        "60",
        "with autoRecoveryDaemonEnabled: how long a bookie is away before it counts as lost, s; the cluster's own"
        " value wins (`bookie autorecovery delay`)",
        least=0,
    ),
    # ---- security (docs/SECURITY.md) -------------------------------------------------------------------------------
    Setting("tlsProviderFactoryClass", str, "", "org.apache.bookkeeper.tls.TLSContextFactory: clients may start TLS"),
    Setting("tlsRequired", _bool, "false", "serve nothing to a client that has not started TLS"),
    Setting("tlsKeyStoreType", str, "JKS", "PEM, JKS or PKCS12"),
    Setting("tlsKeyStore", str, "", "file with this bookie's key: a store, or a PEM key"),
    Setting("tlsCertificatePath", str, "", "with a PEM key: file with its certificate and those of its issuers"),
    Setting("tlsKeyStorePasswordPath", str, "", "file with the password of tlsKeyStore"),
    Setting("tlsTrustStoreType", str, "JKS", "PEM, JKS or PKCS12"),
    Setting("tlsTrustStore", str, "", "file with the certificates to trust"),
    Setting("tlsTrustStorePasswordPath", str, "", "file with the password of tlsTrustStore"),
    Setting("tlsClientAuthentication", _bool, "false", "clients must show a certificate that tlsTrustStore trusts"),
    Setting("tlsHostnameVerificationEnabled", _bool, "false", "certificates of other bookies must name their host"),
    Setting("tlsPeersMayBePlain", _bool, "false", "go on in plain with another bookie that has no TLS (yet)"),
    Setting("tlsEnabledProtocols", split_list, "TLSv1.2,TLSv1.3", "versions of TLS"),
    Setting("tlsEnabledCipherSuites", split_list, "", "suites of TLS 1.2, by Java's or OpenSSL's names; default: all"),
    Setting("bookieAuthProviderFactoryClass", str, "", "Java's class that says how clients prove who they are"),
    Setting(
        "clientAuthProviderFactoryClass",
        str,
        "",
        "Java's class that says how this bookie proves itself to other bookies",
    ),
    Setting("authorizedRoles", split_list, "", "with BookieAuthZFactory: roles of clients' certificates to let in"),
    Setting("authorizedNames", split_list, "", "with BookieAuthZFactory: common names of clients to let in"),
    Setting("saslJaasFile", str, "", "JAAS file with users and passwords (in Java: -Djava.security.auth.login.config)"),
    Setting("saslJaasBookieSectionName", str, "Bookie", "section of saslJaasFile with the users"),
    Setting("saslJaasClientSectionName", str, "BookKeeper", "section of saslJaasFile with this bookie's own user"),
    Setting("saslJaasClientAllowedIds", str, ".*bookkeeper.*", "pattern of user names to let in"),
    Setting("lossSigningKeyFile", str, "", "private key (Ed25519, PEM) that signs notes of accepted losses"),
    Setting("adminTokenFile", str, "", "file with the token that callers on this machine must show the admin port"),
    Setting("adminTlsDirectory", str, "", "directory with tls.crt, tls.key, ca.crt and clients: for adminTlsPort"),
    Setting("adminTlsPort", int, "3184", "admin port over mutual TLS", least=0, most=PORT_MAX),
    Setting("adminSocket", str, "", "path of an admin socket for callers on this machine; default: none"),
    # ---- the process -----------------------------------------------------------------------------------------------
    Setting(
        "adminPort",
        int,
        "",
        "port of gRPC admin and health; default: bookiePort + 10000, or any free one",
        least=0,
        most=PORT_MAX,
    ),
    Setting(
        "metricsPort", int, "", "port of /metrics; default: bookiePort + 20000, or any free one", least=0, most=PORT_MAX
    ),
    Setting("httpServerEnabled", _bool, "false", "serve the admin paths of Java's bookie over HTTP"),
    Setting("httpServerPort", int, "8080", "port of Java's admin paths over HTTP"),
    Setting("httpServerHost", str, "", "address that the HTTP port binds; default: listeningAddress"),
    Setting("httpServerTlsEnable", _bool, "false", "HTTP over TLS, with the certificates of adminTlsDirectory"),
    Setting("httpServerChangesFrom", str, "loopback", "must be loopback: no stranger changes a bookie over HTTP"),
    Setting("shutdownTimeoutMs", int, "8000", "how long the last flush may take after SIGTERM, ms", least=1),
    Setting(
        "nettyMaxFrameSizeBytes",
        int,
        str(5 * MIB),
        "longest frame on the data port, bytes",
        least=64 * KIB,
        most=_FRAME_MAX,
    ),
    Setting(
        "maxConnections", int, "4096", "most client connections; fewer when this process may open few files", least=16
    ),
    Setting("maxReadsInProgressLimit", int, "0", "most reads from the disk at a time; 0: 32", least=0, most=1024),
    Setting(
        "maxPendingReadRequestsPerThread",
        int,
        "10000",
        "most reads that wait for the disk; others get ETOOMANYREQUESTS",
        least=1,
        most=1_000_000,
    ),
    Setting("logLevel", _level, "INFO", ", ".join(LOG_LEVELS), is_live=True),
)
LIVE = tuple(setting.key for setting in SETTINGS if setting.is_live)
BY_NAME = {name: setting for setting in SETTINGS for name in (setting.key, *setting.aliases)}
