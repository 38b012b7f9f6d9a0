"""The one answer that comes three times per entry written, recognised without parsing it: "add done".

    0a hh  08 03  10 02  18 TXN   10 00   aa 06 ss  08 00  10 LEDGER  18 ENTRY
    header version add   txn      EOK     answer    EOK    ids (not looked at: the transaction says which add)

Both Java and we write exactly these bytes (wire-protocol.md 14). Anything else, however legal, is left to the parser:
1 us here against 2.8 us there (min of 50 x 2,000, 3.11).
"""

_START = b"\x08\x03\x10\x02\x18"
_EOK_ANSWER = b"\x10\x00\xaa\x06"
_INNER_EOK = b"\x08\x00\x10"
_OPERATION_AT = 5  # of a header that begins with the version
_ADD = 2
_SIZE_MAX = 64

NOT_PLAIN = -1


def plain_ack_txn(frame: memoryview) -> int:
    """The transaction id of a frame that says "add done" in the plain form; NOT_PLAIN for every other frame."""
    size = len(frame)
    if size > _SIZE_MAX or size <= _OPERATION_AT or frame[_OPERATION_AT] != _ADD:
        return NOT_PLAIN
    data = bytes(frame)
    end = 2 + data[1]  # of the header
    if (
        data[0] != 0x0A
        or data[2:7] != _START
        or data[end : end + 4] != _EOK_ANSWER
        or data[end + 5 : end + 8] != _INNER_EOK
        or data[end + 4] != size - end - 5
    ):
        return NOT_PLAIN
    txn = shift = 0
    for byte in data[7:end]:
        txn |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # Exactly one varint up to the header's end: a priority after it is not plain.
    return txn if shift and shift == 7 * (end - 7) and data[end - 1] < 0x80 else NOT_PLAIN
