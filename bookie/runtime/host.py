"""Asks the system for this machine's name and address, as Java's bookie does."""

import fcntl
import socket
import struct

from bookie.base import errors

_SIOCGIFADDR = 0x8915  # netdevice(7)
_IFNAMSIZ = 16


def address_of(interface: str = "") -> str:
    """Return our IPv4 address: of `interface`, else what this machine's name resolves to. Raises BadInput.

    Rule: DNS.getDefaultIP and BookieImpl.getBookieAddress.
    """
    if not interface:
        name = socket.gethostname()
        try:
            return socket.gethostbyname(name)
        except OSError as error:
            raise errors.BadInput(
                f"this machine's name {name!r} resolves to no address ({error}): set advertisedAddress"
            ) from error
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack(f"{_IFNAMSIZ}s240x", interface.encode()[: _IFNAMSIZ - 1])
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            names = ", ".join(name for _, name in socket.if_nameindex())
            raise errors.BadInput(
                f"listeningInterface {interface!r} has no address ({error}); there are: {names}"
            ) from error
    return socket.inet_ntoa(answer[20:24])


def name_of(address: str) -> str:
    """Return the canonical name of `address`, or `address` itself when it has no name."""
    return socket.getfqdn(address)
