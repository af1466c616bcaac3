"""The local server: the explorer's page and the process behind it, on one port of this machine.

It answers to 127.0.0.1 and nobody else. The opening address carries a token that works once; whoever has it gets a
cookie, and without the cookie there is no page and no conversation. Every request must name the server as its host (a
name that was bent to 127.0.0.1 after the page was loaded, "DNS rebinding", does not), and what begins or continues a
conversation must come from the server's own page. The page's content policy lets it talk to this port only. What is
not allowed gets status 403.

A conversation is two kinds of request. `POST /stream` has an answer without an end: 4 bytes (little-endian) that say
how long a message is, the message, the next one. The first, `{"type": "opened", "stream": name}`, gives the name by
which `POST /messages?stream=name` says something: a JSON list of messages.

A client that is slow gets fewer frames, never older ones: a frame that was not sent when the next one is there is
dropped, and at most `IN_FLIGHT` frames are on their way that the page has not said it has painted.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import signal
import threading
import webbrowser
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from types import FrameType
from typing import Any, Literal, Protocol
from urllib.parse import parse_qs

from ..core.state import locks
from . import page, questions
from .api import Exploration
from .http import Listener, Request, Response

HOST = "127.0.0.1"
# Frames on their way to a page that it has not painted yet.
IN_FLIGHT = 3
# Bytes of one request to the server, and messages to a page (not frames) that wait to be sent.
LARGEST_MESSAGE = 1 << 18
WAITING = 256
# Pages that are served at a time: a browser has six connections to a server, of which each page holds one.
MOST_CLIENTS = 4

_SCRIPT, _STYLE = "text/javascript; charset=utf-8", "text/css; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Message:
    """A message for the page: a JSON header, and where there is a payload, bytes behind it.

    Messages of a `kind` show how things stand, and may be dropped for a newer one of it; those without arrive, in
    order.
    """

    header: Mapping[str, Any]
    payload: bytes = b""
    kind: str = ""

    def encoded(self, number: int | None = None) -> bytes:
        """Return the message as it is sent: 4 bytes with the header's length, the header, the payload."""
        header = self.header if number is None else {**self.header, "frame": number}
        head = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
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
        self.document: dict[str, Any] = exploration.document
        meta = exploration.document["meta"]
        self.title = " · ".join(part for part in (meta["script"], meta["title"]) if part)

    def open(self, post: Post) -> Conversation:
        return Answers(self.exploration, post)


class Answers:
    """The conversation with a page that asks about a recording."""

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

    async def sent_messages(self) -> AsyncIterator[bytes]:
        """Give what is to be sent, as soon as it may be."""
        while True:
            await self.ready.wait()
            self.ready.clear()
            while self.answers:
                yield _framed(self.answers.popleft().encoded())
            while self.newest and self.sent - self.painted < IN_FLIGHT:
                frame = self.newest.pop(next(iter(self.newest)))
                self.sent += 1
                yield _framed(frame.encoded(self.sent))


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "little") + message


# -- the server


class Server:
    """A server of an application on one port of 127.0.0.1; port 0 takes a free one. Used as `async with`."""

    def __init__(self, application: Application, port: int = 0) -> None:
        self.application = application
        self.port = port
        self._token: str | None = secrets.token_urlsafe(32)
        self._opening = self._token
        self._session = secrets.token_urlsafe(32)
        self._listener = Listener(self._answer, HOST, port, LARGEST_MESSAGE)
        self._talks: dict[str, tuple[_Outbox, Conversation]] = {}

    @property
    def outboxes(self) -> list[_Outbox]:
        """The messages that wait for each open page."""
        return [outbox for outbox, _ in self._talks.values()]

    @property
    def url(self) -> str:
        """The opening address, which works once."""
        return f"http://{HOST}:{self.port}/?token={self._opening}"

    @property
    def _cookie(self) -> str:
        # Cookies of one host are shared by all its ports.
        return f"wengert-{self.port}"

    async def __aenter__(self) -> Server:
        await self._listener.__aenter__()
        self.port = self._listener.addresses[0][1]
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._listener.__aexit__(*error)

    # -- requests

    def _answer(self, request: Request) -> Response:
        names = request.all("Host")
        if len(names) != 1 or names[0] not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            return _refused("This server answers to its own address only.")
        origins = request.all("Origin")
        if any(given != f"http://{names[0]}" for given in origins):
            return _refused("This server answers to its own page only.")
        if request.method == "GET" and request.path == "/":
            if not self._may_open(request, request.query):
                return _refused("This address worked once. Start the server again for a new one.")
            cookie = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
            policy = {"Content-Security-Policy": _PAGE_POLICY, "Set-Cookie": cookie}
            return _response(HTTPStatus.OK, "text/html; charset=utf-8", self._page(), policy)
        if not self._is_known(request):
            return _refused("Open the page with the address that the server has printed.")
        if request.method == "POST" and request.path in ("/stream", "/messages"):
            # Browsers say with every POST where it comes from.
            if not origins:
                return _refused("A conversation is for the server's own page.")
            return self._stream() if request.path == "/stream" else self._receive(request, request.query)
        if request.method != "GET":
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", "There is nothing to send here.")
        name = request.path.removeprefix("/")
        if name in ("explorer.js", "explorer.css", *page.parts()):
            return _response(HTTPStatus.OK, _STYLE if name.endswith(".css") else _SCRIPT, page.asset(name))
        return _response(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here.")

    def _may_open(self, request: Request, query: str) -> bool:
        given = parse_qs(query).get("token", [""])[0]
        if self._token is not None and hmac.compare_digest(given.encode(), self._token.encode()):
            self._token = None
            return True
        return self._is_known(request)

    def _is_known(self, request: Request) -> bool:
        for header in request.all("Cookie"):
            with suppress(CookieError):
                found = SimpleCookie(header).get(self._cookie)
                if found is not None and hmac.compare_digest(found.value.encode(), self._session.encode()):
                    return True
        return False

    def _page(self) -> str:
        return "".join(
            (
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
                f'<meta name="wengert-server" content="{self.application.kind}">\n',
                f"<title>{escape(self.application.title)} · wengert</title>\n",
                "<style>html, body, #wengert { height: 100%; margin: 0; }</style>\n",
                '<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/explorer.css">\n</head>\n<body>\n',
                '<div id="wengert"><noscript>This page draws a computational graph with JavaScript.</noscript></div>\n',
                f'<script type="application/wengert-trace">{page.packed(self.application.document)}</script>\n',
                '<script type="module" src="/explorer.js"></script>\n</body>\n</html>\n',
            )
        )

    # -- conversations

    def _stream(self) -> Response:
        if len(self._talks) >= MOST_CLIENTS:
            return _response(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", "Too many pages are open.")
        name = secrets.token_urlsafe(16)
        outbox = _Outbox(asyncio.get_running_loop())
        outbox.post(Message({"type": "opened", "stream": name}))
        conversation = self.application.open(outbox.post)
        self._talks[name] = outbox, conversation

        def ended() -> None:
            del self._talks[name]
            conversation.close()

        headers = _headers("application/octet-stream")
        return Response(HTTPStatus.OK, headers, chunks=outbox.sent_messages(), ended=ended)

    def _receive(self, request: Request, query: str) -> Response:
        """Take messages of a page, in their order."""
        talk = self._talks.get(parse_qs(query).get("stream", [""])[0])
        if talk is None:
            return _response(HTTPStatus.NOT_FOUND, "text/plain", "There is no such conversation.")
        outbox, conversation = talk
        messages = _parsed(request.body)
        if not isinstance(messages, list):
            outbox.post(Message({"type": "error", "text": "what was sent is no JSON list of messages"}))
            messages = []
        for message in messages:
            if isinstance(message, dict) and message.get("type") == "seen":
                if type(message.get("frame")) is int:
                    outbox.seen(message["frame"])
            else:
                conversation.receive(message)
        return Response(HTTPStatus.NO_CONTENT, _headers("text/plain"), keeps=True)


def _parsed(raw: bytes) -> object:
    """Return JSON's value, None where it is none."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data: blob:; "
    "worker-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _headers(kind: str) -> dict[str, str]:
    return {
        "Content-Type": kind,
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def _response(status: HTTPStatus, kind: str, body: str, more: Mapping[str, str] | None = None) -> Response:
    return Response(status, {**_headers(kind), **(more or {})}, body.encode())


def _refused(why: str) -> Response:
    return _response(HTTPStatus.FORBIDDEN, "text/plain", why)


def serve(application: Application | Exploration, *, port: int = 0, browser: bool = True) -> None:
    """Serve a recorded computation, or another application, until Ctrl-C.

    Parameters
    ----------
    application: an `Exploration` or an `Application`.
    port: of 127.0.0.1; 0 takes one that is free.
    browser: whether to open the page in the browser; the address is printed in either case.

    Raises OSError where the port is taken.
    """
    if isinstance(application, Exploration):
        application = Exploring(application)
    server = Server(application, port)
    with suppress(KeyboardInterrupt):
        asyncio.run(_until_interrupted(server, browser))


def _leave_to_debugger(application: Application) -> None:
    """Leave Ctrl-C to the debugger while it has the terminal."""
    debugger = application.exploration.debugger if isinstance(application, Exploring) else None
    before = signal.getsignal(signal.SIGINT)
    if debugger is None or not callable(before) or threading.current_thread() is not threading.main_thread():
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        if not debugger.is_open:
            before(number, frame)

    signal.signal(signal.SIGINT, interrupted)


async def _until_interrupted(server: Server, browser: bool) -> None:
    async with server:
        _leave_to_debugger(server.application)
        print(f"{server.application.title}\n{server.url}\nCtrl-C ends it.", flush=True)
        if browser:
            # A browser may take its time to start.
            threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        await asyncio.Event().wait()
