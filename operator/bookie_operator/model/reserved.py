"""Names that are the operator's own: settings, fields and prefixes that no resource may use; and limits of names."""

DENIED_CONFIG = (
    "bookieId",
    "bookiePort",
    "adminPort",
    "adminTlsPort",
    "adminTlsDirectory",
    "adminTokenFile",
    "adminSocket",
    "metricsPort",
    "advertisedAddress",
    "listeningAddress",
    "listeningInterface",
    "useHostNameAsBookieID",
    "useShortHostName",
    "allowLoopback",
    "permittedStartupUsers",
    "journalDirectories",
    "journalDirectory",
    "ledgerDirectories",
    "indexDirectories",
    "metadataServiceUri",
    "zkServers",
    "zkLedgersRootPath",
    "ledgerManagerFactoryClass",
    "ledgerManagerType",
    "zkTimeout",
    # metadataService.security
    "zkEnableSecurity",
    "zkJaasFile",
    "zkJaasSectionName",
    "zookeeper.sasl.clientconfig",
    "zkDigestFile",
    "zkTlsEnabled",
    "zookeeper.client.secure",
    "zkTlsTrustStore",
    "zookeeper.ssl.trustStore.location",
    "zkTlsTrustStoreType",
    "zookeeper.ssl.trustStore.type",
    "zkTlsTrustStorePasswordPath",
    "zookeeper.ssl.trustStore.passwordPath",
    "zkTlsKeyStore",
    "zookeeper.ssl.keyStore.location",
    "zkTlsKeyStoreType",
    "zookeeper.ssl.keyStore.type",
    "zkTlsKeyStorePasswordPath",
    "zookeeper.ssl.keyStore.passwordPath",
    "zkTlsCertificatePath",
    "journalWriteData",
    "zone",
    "machine",
    "regeneration",
    "volumeProof",
    "allowSharedFilesystem",
    "copyRateBytesPerSecond",
    "shutdownTimeoutMs",
    "adminTokenFile",
    "autoRecoveryDaemonEnabled",
    "dataIntegrityChecking",
    "dataIntegrityStampMissingCookies",
    "allowStorageExpansion",
)

BOOKIES_MAX = 150  # of one cluster
# Of pods 55 characters: {name}-{zone}-{ordinal}; Kubernetes wants 63 at most in labels and host names.
CLUSTER_NAME_MAX = 30
CLUSTER_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
# Of volumes of a pod: the operator's own.
RESERVED_VOLUMES = "bookie-"
# Of labels and annotations: the operator's own (model/names.py).
RESERVED_KEYS = "bookie.dev/"

# Settings of spec.security, which must not stand in spec.config while it is switched on.
TLS_CONFIG = (
    "tlsProviderFactoryClass",
    "tlsRequired",
    "tlsPeersMayBePlain",
    "tlsKeyStoreType",
    "tlsKeyStore",
    "tlsCertificatePath",
    "tlsKeyStorePasswordPath",
    "tlsTrustStoreType",
    "tlsTrustStore",
    "tlsTrustStorePasswordPath",
    "tlsClientAuthentication",
    "tlsHostnameVerificationEnabled",
)
AUTHENTICATION_CONFIG = (
    "bookieAuthProviderFactoryClass",
    "clientAuthProviderFactoryClass",
    "saslJaasFile",
    "saslJaasBookieSectionName",
    "saslJaasClientSectionName",
)

# Fields of a PodSpec that a pod template must not have, with their types: the API server sees only what is declared.
POD_SPEC_OWN = {
    "activeDeadlineSeconds": "integer",
    "hostIPC": "boolean",
    "hostNetwork": "boolean",
    "hostPID": "boolean",
    "hostUsers": "boolean",
    "hostname": "string",
    "nodeName": "string",
    "restartPolicy": "string",
    "setHostnameAsFQDN": "boolean",
    "shareProcessNamespace": "boolean",
    "subdomain": "string",
    "terminationGracePeriodSeconds": "integer",
}
