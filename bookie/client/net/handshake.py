"""Prepares a new connection for its first request: encrypts it, and proves who the client is.

The handshake goes as version 3, whatever the connection speaks later: a bookie tells the versions apart frame by frame,
and turns to 2 at the first frame of 2 (spec/wire.md#W4, W41). START_TLS comes first, so that SASL does not go in plain.
A bookie that refuses the client counts as unavailable, with its reason: another bookie may accept the client.
"""

import contextlib
from typing import TypeVar

from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_S
from bookie.client.options import ClientOptions
from bookie.ports import World
from bookie.ports.network import ByteStream
from bookie.ports.time_limit import TimeLimit
from bookie.ports.tls import Tls
from bookie.wire import codes, sasl, v3
from bookie.wire.framing import FrameSplitter
from bookie.wire.messages import AuthRequest, AuthResponse, Request, Response, StartTlsRequest, StartTlsResponse

R = TypeVar("R", bound=Response)

_NONCE_SIZE = 24
# Far from the numbers of requests, so that a late answer matches no request.
_TXN_FIRST = 1 << 62
_NOT_ACCEPTED = ": it may not accept this client's certificate, and its log says why"
_NONE_SHOWN = (
    ": it may want a certificate, and this client shows none (a settings file that names one shows it only with"
    " tlsClientAuthentication=true)"
)


class Handshake:
    """The keys and the password of one client, loaded."""

    def __init__(self, options: ClientOptions, world: World) -> None:
        """Load the keys. Raises BadInput when they cannot be used."""
        self._world = world
        self._user = options.sasl_user
        self._password = options.sasl_password
        self._tls: Tls | None = None
        self._doubt = ""
        # What a bookie without TLS answers to START_TLS, as Java's does (spec/wire.md#W41).
        self._taken_for_plain: tuple[Status, ...] = ()
        if options.tls is not None:
            self._taken_for_plain = (Status.EBADREQ,) if options.tls.may_be_plain else ()
            self._tls = world.network.load_tls(options.tls, is_server=False)
            self._doubt = _NOT_ACCEPTED if options.tls.key_store else _NONE_SHOWN

    @property
    def is_needed(self) -> bool:
        return self._tls is not None or bool(self._user)

    @property
    def doubt(self) -> str:
        """What may be the matter when a bookie closes a connection that it let in and answers nothing. In TLS 1.3 the
        client is ready before the bookie has looked at its certificate, and the bookie's loop sends no alert."""
        return self._doubt

    async def begin(self, bookie_id: BookieId, stream: ByteStream, deadline_ns: int) -> None:
        """Make `stream` ready for requests, before `deadline_ns` (monotonic). Raises BookieUnavailable; then closed."""
        if not self.is_needed:
            return
        conversation = _Conversation(bookie_id, stream)
        with contextlib.ExitStack() as undo:
            undo.callback(stream.close)
            try:
                async with TimeLimit(max(0.0, (deadline_ns - self._world.clock.monotonic_ns()) / NS_PER_S)):
                    if self._tls is not None:
                        await self._encrypt(conversation, self._tls, deadline_ns)
                    if self._user:
                        await self._authenticate(conversation)
            except TimeoutError:
                raise errors.BookieUnavailable(
                    f"bookie {bookie_id} did not answer {conversation.asked} in time (Java's do not answer a wrong"
                    " password; ours let an address wait from which many wrong ones came)"
                ) from None
            except (errors.BadInput, errors.Unauthorized) as error:
                raise errors.BookieUnavailable(f"bookie {bookie_id}: {error}") from error
            undo.pop_all()

    async def _encrypt(self, conversation: "_Conversation", tls: Tls, deadline_ns: int) -> None:
        refused = "it has no TLS, and this client speaks to no bookie without TLS"
        request = StartTlsRequest(0, v3.VERSION)
        answer = await conversation.ask(request, StartTlsResponse, "START_TLS", refused, taken=self._taken_for_plain)
        if answer.status is Status.EOK:
            await conversation.stream.start_tls(tls, deadline_ns)

    async def _authenticate(self, conversation: "_Conversation") -> None:
        cnonce = self._world.entropy.token(_NONCE_SIZE).hex()
        client = sasl.DigestClient(self._user, self._password, cnonce)
        refused = f"it does not accept user {self._user!r} with this password (or by its saslJaasClientAllowedIds)"
        payload: bytes | None = b""  # the exchange begins with an empty message of the client
        while payload is not None:
            request = AuthRequest(0, v3.VERSION, sasl.PLUGIN, payload)
            answer = await conversation.ask(request, AuthResponse, "AUTH", refused)
            if answer.plugin == codes.AUTH_DISABLED_PLUGIN:
                return  # the bookie asks no client for a proof, as in Java
            payload = client.answer(answer.payload)


class _Conversation:
    """Asks one question at a time, on a connection that carries no requests yet."""

    def __init__(self, bookie_id: BookieId, stream: ByteStream) -> None:
        self.stream = stream
        self.asked = ""
        self.bookie_id = bookie_id
        self._frames = FrameSplitter()
        self._next_txn = _TXN_FIRST

    async def ask(
        self, request: Request, expected: type[R], name: str, refused: str, *, taken: tuple[Status, ...] = ()
    ) -> R:
        """Send `request`; return its answer, with status EOK or one of `taken`. Raises Unauthorized with the text
        `refused` for another status, BookieUnavailable when the connection ends, BadInput for anything but an answer
        to `request`.
        """
        self.asked = name
        request.txn = self._next_txn
        self._next_txn += 1
        self.stream.write(v3.pack_request(request))
        answer = await self._answer(request.txn, name)
        if answer.status is not Status.EOK and answer.status not in taken:
            raise errors.Unauthorized(f"{refused} ({answer.status.name})")
        if not isinstance(answer, expected):
            raise errors.BadInput(f"it answered something else than {name}")
        return answer

    async def _answer(self, txn: int, name: str) -> Response:
        """Wait for the answer to question `txn`, and skip answers to earlier ones. Java's bookie answers START_TLS a
        second time, with EIO, when it wants a proof besides TLS; the client is already sending that proof then.
        """
        found: Response | None = None
        while found is None:
            chunk = await self.stream.read()
            if not chunk:
                raise errors.BookieUnavailable(f"bookie {self.bookie_id} closed the connection at {name}")
            for frame in self._frames.feed(chunk):
                answer = v3.unpack_response(frame)
                if answer.txn == txn:
                    found = answer
                elif not _TXN_FIRST <= answer.txn < txn:
                    raise errors.BadInput(f"it answered something else than {name}")
        if not self._frames.is_empty:
            raise errors.BadInput(f"it sent more than an answer to {name}")
        return found
