"""The local server: the explorer's page and a socket to the process behind it, on one port of this machine.

It answers to 127.0.0.1 and nobody else. The opening address carries a token that works once; whoever has it gets a
cookie, and without the cookie there is no page and no socket. Every request must name the server as its host (a name
that was bent to 127.0.0.1 after the page was loaded, "DNS rebinding", does not), and a socket must come from the
server's own page. The page's content policy lets it talk to this port only. What is not allowed gets status 403.

A client that is slow gets fewer frames, never older ones: a frame that was not sent when the next one is there is
dropped, and at most `IN_FLIGHT` frames are on their way that the page has not said it has painted.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import threading
import webbrowser
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any, Literal, Protocol
from urllib.parse import parse_qs, urlsplit

from ..core.errors import StateError, fail
from ..core.state import locks
from . import questions
from .api import Exploration
from .page import asset, packed

HOST = "127.0.0.1"
# Frames on their way to a page that it has not painted yet.
IN_FLIGHT = 3
# Bytes of one message to the server, and messages to a page (not frames) that wait to be sent.
LARGEST_MESSAGE = 1 << 18
WAITING = 256
# Pages that are served at a time.
MOST_CLIENTS = 8

_ASSETS = {
    "/server.js": ("server.js", "text/javascript; charset=utf-8"),
    "/server.css": ("server.css", "text/css; charset=utf-8"),
}


@dataclass(frozen=True, slots=True)
class Message:
    """A message for the page: a JSON header, and where there is a payload, bytes behind it.

    Messages of a `kind` show how things stand, and may be dropped for a newer one of it; those without arrive, in
    order.
    """

    header: Mapping[str, Any]
    payload: bytes = b""
    kind: str = ""

    def encoded(self, number: int | None = None) -> str | bytes:
        """Return the message as it is sent: text, or 4 bytes with the header's length, the header, the payload."""
        header = self.header if number is None else {**self.header, "frame": number}
        text = json.dumps(header, separators=(",", ":"), allow_nan=False)
        if not self.payload:
            return text
        head = text.encode()
        # The payload begins at a multiple of 4, so that the page can look at it without a copy.
        head += b" " * (-len(head) % 4)
        return len(head).to_bytes(4, "little") + head + self.payload


class Conversation(Protocol):
    """The conversation with one open page."""

    def receive(self, message: object) -> None:
        """Take a message of the page: any JSON value, not checked. Must return at once, and not raise."""

    def close(self) -> None:
        """End the conversation when its page has gone."""


Post = Callable[[Message], None]


class Application(Protocol):
    """An application that a server shows: a title, a document to begin with, and something to talk to."""

    @property
    def title(self) -> str: ...

    @property
    def kind(self) -> Literal["explorer", "playground", "watch"]:
        """The kind of page."""

    @property
    def document(self) -> Mapping[str, Any]: ...

    def open(self, post: Post) -> Conversation:
        """Begin a conversation with a page that was opened. `post` sends it messages, from any thread."""


class Exploring:
    """The explorer of one recorded computation: answers for whole tensors."""

    kind: Literal["explorer"] = "explorer"

    def __init__(self, exploration: Exploration) -> None:
        self.exploration = exploration
        self.document: Mapping[str, Any] = exploration.document
        meta = exploration.document["meta"]
        self.title = " · ".join(part for part in (meta["script"], meta["title"]) if part)

    def open(self, post: Post) -> Conversation:
        return _Answers(self.exploration, post)


class _Answers:
    def __init__(self, exploration: Exploration, post: Post) -> None:
        self.exploration, self.post = exploration, post
        self._one = locks.lock()

    def receive(self, message: object) -> None:
        if questions.is_slow(message):
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()
        else:
            self._answer(message)

    def _answer(self, message: object) -> None:
        # One long answer at a time: they share the recording.
        with self._one if questions.is_slow(message) else nullcontext():
            found = answer(message, self.exploration)
        self.post(
            found if found is not None else Message({"type": "error", "text": "a message that means nothing here"})
        )

    def close(self) -> None:
        """Do nothing: no resources are held."""


def answer(message: object, exploration: Exploration) -> Message | None:
    """Return the answer to a page's question about a recording, None where it was no such question."""
    found = questions.answer(message, exploration)
    return None if found is None else Message({"type": "details" if "details" in found else "answer", **found})


# -- what goes out


@dataclass(eq=False)
class _Outbox:
    """The messages that wait to be sent to one page: answers in order, and of each kind of picture the newest."""

    loop: asyncio.AbstractEventLoop
    answers: deque[Message] = field(default_factory=lambda: deque(maxlen=WAITING))
    newest: dict[str, Message] = field(default_factory=dict)
    dropped: int = 0
    sent: int = 0
    painted: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def post(self, message: Message) -> None:
        """Add a message, from any thread. A server that is closing takes nothing more."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._take, message)

    def _take(self, message: Message) -> None:
        if message.kind:
            self.dropped += self.newest.pop(message.kind, None) is not None
            self.newest[message.kind] = message
        else:
            self.answers.append(message)
        self.ready.set()

    def seen(self, frame: int) -> None:
        """Record that the page has painted this frame."""
        self.painted = max(self.painted, min(frame, self.sent))
        self.ready.set()

    async def send_all(self, socket: Any) -> None:
        while True:
            await self.ready.wait()
            self.ready.clear()
            while self.answers:
                await socket.send(self.answers.popleft().encoded())
            while self.newest and self.sent - self.painted < IN_FLIGHT:
                frame = self.newest.pop(next(iter(self.newest)))
                self.sent += 1
                await socket.send(frame.encoded(self.sent))


# -- the server


class Server:
    """A server of an application on one port of 127.0.0.1; port 0 takes a free one. Used as `async with`."""

    def __init__(self, application: Application, port: int = 0) -> None:
        self.application = application
        self.port = port
        self._token: str | None = secrets.token_urlsafe(32)
        self._opening = self._token
        self._session = secrets.token_urlsafe(32)
        self._serving: Any = None
        self._websockets = _websockets()
        self.outboxes: list[_Outbox] = []

    @property
    def url(self) -> str:
        """The opening address, which works once."""
        return f"http://{HOST}:{self.port}/?token={self._opening}"

    @property
    def _cookie(self) -> str:
        # Cookies of one host are shared by all its ports.
        return f"wengert-{self.port}"

    async def __aenter__(self) -> Server:
        self._serving = await self._websockets.serve(
            self._talk,
            HOST,
            self.port,
            process_request=self._request,
            compression=None,
            max_size=LARGEST_MESSAGE,
            write_limit=1 << 16,
            server_header=None,
            close_timeout=1,
        )
        self.port = self._serving.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._serving.close()
        await self._serving.wait_closed()

    # -- plain HTTP

    def _request(self, connection: Any, request: Any) -> Any:
        """Return the answer to a request, None where it may become a socket."""
        names = request.headers.get_all("Host")
        if len(names) != 1 or names[0] not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            return self._refused("This server answers to its own address only.")
        origin = f"http://{names[0]}"
        origins = request.headers.get_all("Origin")
        if any(given != origin for given in origins):
            return self._refused("This server answers to its own page only.")
        if request.method != "GET":
            return self._response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", "There is nothing to send here.")
        parts = urlsplit(request.path)
        if parts.path == "/":
            if not self._may_open(request, parts.query):
                return self._refused("This address worked once. Start the server again for a new one.")
            cookie = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
            return self._response(HTTPStatus.OK, "text/html; charset=utf-8", self._page(), names[0], cookie)
        if not self._is_known(request):
            return self._refused("Open the page with the address that the server has printed.")
        if parts.path == "/socket" and "websocket" in request.headers.get("Upgrade", "").lower():
            if not origins:
                return self._refused("A socket is for the server's own page.")
            if len(self.outboxes) >= MOST_CLIENTS:
                return self._response(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", "Too many pages are open.")
            return None
        if parts.path in _ASSETS:
            name, kind = _ASSETS[parts.path]
            return self._response(HTTPStatus.OK, kind, asset(name))
        return self._response(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here.")

    def _may_open(self, request: Any, query: str) -> bool:
        given = parse_qs(query).get("token", [""])[0]
        if self._token is not None and hmac.compare_digest(given.encode(), self._token.encode()):
            self._token = None
            return True
        return self._is_known(request)

    def _is_known(self, request: Any) -> bool:
        for header in request.headers.get_all("Cookie"):
            with suppress(CookieError):
                found = SimpleCookie(header).get(self._cookie)
                if found is not None and hmac.compare_digest(found.value.encode(), self._session.encode()):
                    return True
        return False

    def _refused(self, why: str) -> Any:
        return self._response(HTTPStatus.FORBIDDEN, "text/plain", why)

    def _response(self, status: HTTPStatus, kind: str, body: str, host: str = "", cookie: str = "") -> Any:
        data = body.encode()
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            "Connection": "close",
            "Cache-Control": "no-store",
            "Content-Security-Policy": _policy(host),
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        if cookie:
            headers["Set-Cookie"] = cookie
        return self._websockets.response(int(status), status.phrase, headers, data)

    def _page(self) -> str:
        return "".join(
            (
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
                f'<meta name="wengert-server" content="{self.application.kind}">\n',
                f"<title>{escape(self.application.title)} · wengert</title>\n",
                "<style>html, body, #wengert { height: 100%; margin: 0; }</style>\n",
                '<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/server.css">\n</head>\n<body>\n',
                '<div id="wengert"><noscript>This page draws a computational graph with JavaScript.</noscript></div>\n',
                f'<script type="application/wengert-trace">{packed(self.application.document)}</script>\n',
                '<script type="module" src="/server.js"></script>\n</body>\n</html>\n',
            )
        )

    # -- the socket

    async def _talk(self, socket: Any) -> None:
        outbox = _Outbox(asyncio.get_running_loop())
        self.outboxes.append(outbox)
        conversation = self.application.open(outbox.post)
        sending = asyncio.ensure_future(outbox.send_all(socket))
        try:
            async for raw in socket:
                message = _parsed(raw)
                if isinstance(message, dict) and message.get("type") == "seen":
                    if type(message.get("frame")) is int:
                        outbox.seen(message["frame"])
                elif message is None:
                    outbox.post(Message({"type": "error", "text": "a message that is no JSON text"}))
                else:
                    conversation.receive(message)
        except self._websockets.closed:
            pass
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, self._websockets.closed):
                await sending
            conversation.close()
            self.outboxes.remove(outbox)


def _parsed(raw: str | bytes) -> object:
    """Return a message's JSON, None where it is none."""
    if isinstance(raw, bytes):
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _policy(host: str) -> str:
    if not host:
        return "default-src 'none'; frame-ancestors 'none'"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data: blob:; "
        f"worker-src blob:; connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@dataclass(frozen=True, slots=True)
class _Library:
    """The part of websockets that is used."""

    serve: Callable[..., Any]
    closed: type[Exception]
    response: Callable[..., Any]


def _websockets() -> _Library:
    """Return the library that speaks the protocol, which is an extra. Raises StateError where it is not installed."""
    try:
        serving: Any = import_module("websockets.asyncio.server")
        http: Any = import_module("websockets.http11")
        headers: Any = import_module("websockets.datastructures")
        errors: Any = import_module("websockets.exceptions")
    except ImportError:
        fail(StateError, "the local server needs websockets, which is not installed", "pip install 'wengert[explore]'")

    def response(status: int, reason: str, fields: Mapping[str, str], body: bytes) -> Any:
        return http.Response(status, reason, headers.Headers(fields), body)

    return _Library(serving.serve, errors.ConnectionClosed, response)


def serve(application: Application | Exploration, *, port: int = 0, browser: bool = True) -> None:
    """Serve a recorded computation, or another application, until Ctrl-C.

    Parameters
    ----------
    application: an `Exploration` or an `Application`.
    port: of 127.0.0.1; 0 takes one that is free.
    browser: whether to open the page in the browser; the address is printed in either case.

    Raises StateError where websockets is not installed, OSError where the port is taken.
    """
    if isinstance(application, Exploration):
        application = Exploring(application)
    server = Server(application, port)
    with suppress(KeyboardInterrupt):
        asyncio.run(_until_interrupted(server, browser))


async def _until_interrupted(server: Server, browser: bool) -> None:
    async with server:
        print(f"{server.application.title}\n{server.url}\nCtrl-C ends it.", flush=True)
        if browser:
            # A browser may take its time to start.
            threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        await asyncio.Event().wait()
