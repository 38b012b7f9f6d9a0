"""Operation codes, flags and status numbers of both protocol versions, each with its source.

The v3 status numbers are canonical here (`errors.Status`); v2 return codes exist at the edge of the v2 codec only.
Rule: spec/wire.md#W16.
"""

import enum

from bookie.base.errors import Status


class Operation(enum.IntEnum):
    """OperationType of BookkeeperProtocol.proto."""

    READ_ENTRY = 1
    ADD_ENTRY = 2
    RANGE_READ_ENTRY = 3
    RANGE_ADD_ENTRY = 4
    AUTH = 5
    WRITE_LAC = 6
    READ_LAC = 7
    GET_BOOKIE_INFO = 8
    START_TLS = 9
    FORCE_LEDGER = 10
    GET_LIST_OF_ENTRIES_OF_LEDGER = 11
    BATCH_READ_ENTRY = 12


# v3: the version that every header carries, and Java's number for "urgent" (anything above 0 counts).
VERSION_THREE = 3
PRIORITY_HIGH = 100
# The first payload byte of any v3 message: field 1, length-delimited. A v2 frame starts with its version, 0..2.
V3_FIRST_BYTE = 0x0A

# v3 ReadRequest.Flag and AddRequest.Flag are single values, not bit sets.
READ_FENCE_LEDGER = 1
READ_ENTRY_PIGGYBACK = 2
ADD_RECOVERY = 1
# AddRequest.writeFlags, bit 0 (WriteFlag.DEFERRED_SYNC).
WRITE_DEFERRED_SYNC = 1

# GetBookieInfoRequest.requested.
INFO_TOTAL_DISK_CAPACITY = 1
INFO_FREE_DISK_SPACE = 2
# Ours: asks which life answers on this connection (docs/PROTOCOL.md, "Whose answer is it"). A Java bookie looks at its
# own two bits only and answers without it (GetBookieInfoProcessorV3.java).
INFO_LIFE = 1 << 40

# What a bookie with authentication switched off answers to every AUTH (AuthHandler.java).
AUTH_DISABLED_PLUGIN = "AuthDisabledPlugin"

# The ledger's master key is always SHA-1 sized on v2 (BookieProtocol.MASTER_KEY_LENGTH).
MASTER_KEY_SIZE = 20


class V2Opcode(enum.IntEnum):
    """BookieProtocol.java; 4..6 cannot be sent as v2 requests."""

    ADDENTRY = 1
    READENTRY = 2
    AUTH = 3
    BATCH_READ_ENTRY = 7


# v2 flags are bits and may be combined.
V2_FLAG_DO_FENCING = 0x0001
V2_FLAG_RECOVERY_ADD = 0x0002
V2_FLAG_HIGH_PRIORITY = 0x0004

STATUS_OF_V2_CODE: dict[int, Status] = {
    0: Status.EOK,
    1: Status.ENOLEDGER,
    2: Status.ENOENTRY,
    100: Status.EBADREQ,
    101: Status.EIO,
    102: Status.EUA,
    103: Status.EBADVERSION,
    104: Status.EFENCED,
    105: Status.EREADONLY,
    106: Status.ETOOMANYREQUESTS,
    107: Status.EUNKNOWNLEDGERSTATE,
}
# Code 107 makes every Java v2 client drop the connection: its mapper throws on it. EIO is just as much an "unknown"
# to the quorum rules, and harmless (spec/wire.md#W17).
V2_CODE_OF_STATUS: dict[Status, int] = {status: code for code, status in STATUS_OF_V2_CODE.items()}
V2_CODE_OF_STATUS[Status.EUNKNOWNLEDGERSTATE] = V2_CODE_OF_STATUS[Status.EIO]
assert set(V2_CODE_OF_STATUS) == set(Status)
assert 107 not in V2_CODE_OF_STATUS.values()
