#!/bin/bash
# Write the configuration from the ZOO_* settings unless one is mounted, then become ZooKeeper.
set -euo pipefail

configuration="$ZOO_CONF_DIR/zoo.cfg"
if [ ! -f "$configuration" ]; then
  {
    echo "dataDir=$ZOO_DATA_DIR"
    echo "dataLogDir=$ZOO_DATA_LOG_DIR"
    echo "clientPort=2181"
    echo "tickTime=$ZOO_TICK_TIME"
    echo "initLimit=$ZOO_INIT_LIMIT"
    echo "syncLimit=$ZOO_SYNC_LIMIT"
    echo "autopurge.snapRetainCount=$ZOO_AUTOPURGE_SNAPRETAINCOUNT"
    echo "autopurge.purgeInterval=$ZOO_AUTOPURGE_PURGEINTERVAL"
    echo "maxClientCnxns=$ZOO_MAX_CLIENT_CNXNS"
    echo "standaloneEnabled=$ZOO_STANDALONE_ENABLED"
    echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
    echo "admin.enableServer=false"
    for server in ${ZOO_SERVERS:-}; do echo "$server"; done
    for setting in ${ZOO_CFG_EXTRA:-}; do echo "$setting"; done
  } >"$configuration"
fi
if [ ! -f "$ZOO_DATA_DIR/myid" ]; then
  echo "${ZOO_MY_ID:-1}" >"$ZOO_DATA_DIR/myid"
fi
# shellcheck disable=SC2086 # JVMFLAGS is a list of words
exec java -Xmx"${ZK_SERVER_HEAP}m" ${JVMFLAGS:-} ${SERVER_JVMFLAGS:-} -cp "/opt/zookeeper/*" \
  org.apache.zookeeper.server.quorum.QuorumPeerMain "$configuration"
