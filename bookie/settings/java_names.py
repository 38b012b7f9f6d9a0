"""Lists the settings of Java's bookie that this one does not have: which to ignore, and which to refuse.

A Java fleet's bk_server.conf is taken as it is. A name in `WITHOUT_MEANING` tunes machinery that is not here; it is
named once and ignored. A name in `REFUSED` with that value asks for a promise that this bookie does not make, so it
does not start. Any other name is unknown, most often a slip.
"""

from collections.abc import Mapping

# Value -> why this bookie does not start with it. Values are compared in lower case.
REFUSED: Mapping[str, Mapping[str, str]] = {
    "skipReplayJournalInvalidRecord": {
        "true": "a journal record that does not check may have been acknowledged and is never skipped; set it to false"
    },
    "dataIntegrityStampMissingCookies": {
        "true": "a bookie that gives itself new cookies undoes what it promised; say regeneration=gated (waits for a"
        " grant) or regeneration=local instead"
    },
    "disableServerSocketBind": {"true": "a bookie without a data port serves nobody; remove it"},
}

_WITHOUT_MEANING = """
    allocatorExitOnOutOfMemory allocatorLeakDetectionPolicy allocatorOutOfMemoryPolicy allocatorPoolingConcurrency
    allocatorPoolingPolicy allowEphemeralPorts allowMultipleDirsUnderSameDiskPartition
    allowShadedLedgerManagerFactoryClass
    auditorAcquireConcurrentOpenLedgerOperationsTimeOutMSec auditorLedgerVerificationPercentage
    auditorMaxNumberOfConcurrentOpenLedgerOperations auditorPeriodicBookieCheckInterval auditorPeriodicCheckInterval
    auditorPeriodicPlacementPolicyCheckInterval auditorReplicasCheckInterval
    bookieDeathWatchInterval bookieQuarantineTimeSeconds bookieServiceInfoProvider busyWaitEnabled
    byteBufAllocatorSizeInitial byteBufAllocatorSizeMax byteBufAllocatorSizeMin
    byteBufAllocatorUseCacheForAllThreads closeChannelOnResponseTimeout codahaleStatsCSVEndpoint
    codahaleStatsGraphiteEndpoint codahaleStatsJmxEndpoint codahaleStatsOutputFrequencySeconds codahaleStatsPrefix
    codahaleStatsSlf4jEndpoint compactionMaxOutstandingRequests dataIntegrityChecking dbStorage_directIOEntryLogger
    dbStorage_directIOEntryLoggerMaxFdCacheTimeSeconds dbStorage_directIOEntryLoggerReadBufferSizeMB
    dbStorage_directIOEntryLoggerTotalReadBufferSizeMB dbStorage_directIOEntryLoggerTotalWriteBufferSizeMB
    dbStorage_maxThrottleTimeMs dbStorage_readAheadCacheBatchBytesSize dbStorage_readAheadCacheBatchSize
    dbStorage_rocksDB_blockCacheSize dbStorage_rocksDB_blockSize dbStorage_rocksDB_bloomFilterBitsPerKey
    dbStorage_rocksDB_checksum_type dbStorage_rocksDB_format_version dbStorage_rocksDB_logLevel
    dbStorage_rocksDB_logPath dbStorage_rocksDB_lz4CompressionEnabled dbStorage_rocksDB_maxSizeInLevel1MB
    dbStorage_rocksDB_numFilesInLevel0 dbStorage_rocksDB_numLevels dbStorage_rocksDB_sstSizeInMB
    dbStorage_rocksDB_writeBufferSizeMB defaultRocksdbConf digestType diskCheckInterval dlog.bkcAckQuorumSize
    dlog.bkcEnsembleSize dlog.bkcWriteQuorumSize enableBookieAddressTracking enableBusyWait
    enableDigestTypeAutodetection enableLocalTransport enableStatistics enableTaskExecutionStats
    enforceMinNumRacksPerWriteQuorum ensemblePlacementPolicy entryLocationCompactionInterval
    entryLocationRocksdbConf entryLogFilePreallocationEnabled entrylogMapAccessExpiryTimeInSeconds
    entryLogPerLedgerCounterLimitsMultFactor entryLogPerLedgerEnabled extraServerComponents
    fileInfoCacheInitialCapacity fileInfoFormatVersionToWrite fileInfoMaxIdleTime flushEntrylogBytes
    gcEntryLogMetadataCacheEnabled gcEntryLogMetadataCachePath gcMetadataOpRateLimit
    gcOverreplicatedLedgerMaxConcurrentRequests getBookieInfoIntervalSeconds
    httpServerClass httpServerKeystorePassword httpServerKeystorePath httpServerTrustStorePassword
    httpServerTruststorePassword httpServerTrustStorePath httpServerTruststorePath
    ignoreExtraServerComponentsStartupFailures inFlightReadEntryNumInLedgerChecker journalAdaptiveGroupWrites
    journalAlignmentSize journalBufferedEntriesThreshold journalBufferedWritesThreshold journalChannelProvider
    journalFlushWhenQueueEmpty journalFormatVersionToWrite journalMaxBackups journalMaxGroupWaitMSec
    journalMaxMemorySizeMb journalPageCacheFlushIntervalMSec journalPreAllocSizeMB journalQueueSize
    journalRemoveFromPageCache journalReuseFiles journalSyncData journalWriteBufferSizeKB
    ledgerMetadataFormatVersion ledgerMetadataRocksdbConf ledgerMetadataVersion ledgerStorageClass limitStatsLogging
    localConsistencyCheckOnStartup lockReleaseOfFailedLedgerGracePeriod
    maxAddsInProgressLimit maxBatchReadSize maximumNumberOfActiveEntryLogs
    maxOperationNumbersInSingleRocksdbWriteBatch maxPendingAddRequestsPerThread
    metadataClientDriver metricsProvider minNumRacksPerWriteQuorum
    minUsableSizeForEntryLogCreation minUsableSizeForHighPriorityWrites minUsableSizeForIndexFileCreation
    networkTopologyScriptFileName networkTopologyScriptNumberArgs networkTopologyStabilizePeriodSeconds
    numAddWorkerThreads numHighPriorityWorkerThreads numJournalCallbackThreads numLongPollWorkerThreads
    numOfMemtableFlushThreads numReadWorkerThreads numRegionsToWrite openFileLimit pageLimit pageSize passwd
    preserveMdcForTaskExecution prometheusBasicStatsOnly prometheusStatsHttpAddress
    prometheusStatsHttpEnable prometheusStatsHttpPort prometheusStatsLatencyRolloverSeconds readBufferSizeBytes
    readOnlyModeOnAnyDiskFullEnabled readWorkerThreadsThrottlingEnabled registrationManagerClass
    repairedPlacementPolicyNotAdheringBookieEnabled
    repairedPlacementPolicyNotAdheringBookieEnable replicationRateByBytes reppDnsResolverClass requestTimerNumTicks
    requestTimerTickDurationMs rereplicationEntryBatchSize rocksDBDeleteEntriesBatchSize rwRereplicateBackoffMs
    sanityCheckMetricsEnabled serverNumAcceptorThreads serverNumIOThreads serverSockKeepalive serverTcpLinger
    serverTcpNoDelay serverWriteBufferHighWaterMark serverWriteBufferLowWaterMark
    shadedLedgerManagerFactoryClassPrefix skipListArenaChunkSize skipListArenaMaxAllocSize skipListSizeLimit
    sortedLedgerStorageEnabled statsExport statsHttpPort statsProviderClass
    storage.cluster.controller.schedule.interval.ms storage.range.store.dirs storage.serve.readonly.tables
    storageserver.grpc.port storageserver.serve.readonly.tables storeSystemTimeAsLedgerCreationTime
    storeSystemTimeAsLedgerUnderreplicatedMarkTime tlsCertFilesRefreshDurationSeconds tlsProvider
    underreplicatedLedgerRecoveryGracePeriod useTargetEntryLogSizeForGc useTransactionalCompaction useV2WireProtocol
    desiredNumZonesPerWriteQuorum enableHealthCheck enforceMinNumFaultDomainsForWrite enforceStrictZoneawarePlacement
    entryFormatterClass httpServerKeyStorePassword httpServerKeyStorePath ignoreLocalNodeInPlacementPolicy
    ledgerIdFormatterClass ledgerManagerFactoryDisableClassCheck metastoreImplClass metastoreMaxEntriesPerScan
    minNumZonesPerWriteQuorum
    verifyMetadataOnGC waitTimeoutOnResponseBackpressureMs writeBufferSizeBytes zkReplicationTaskRateLimit
    zkRequestRateLimit zkRetryBackoffMaxMs zkRetryBackoffMaxRetries zkRetryBackoffStartMs
"""
WITHOUT_MEANING = frozenset(_WITHOUT_MEANING.split())

# What has no meaning as text but a person may rely on: named with what holds here instead.
HOLDS_INSTEAD: Mapping[tuple[str, str], str] = {
    ("journalSyncData", "false"): "every acknowledged entry is synced here",
}
