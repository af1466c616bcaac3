"""The part of HTTP/1.1 (RFC 9112) that the local server speaks, over asyncio's streams.

Requests with a body of known length, answers with one, and answers that are streams: chunks that are sent as they come
until either side has gone. That is all a page needs of its server: what it says are requests, what it hears is one
long answer. A WebSocket would need frames, masks, fragments, pings and a closing handshake besides, or a library for
them.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message as Headers
from http import HTTPStatus

# Bytes of a request's head, and seconds that a connection may say nothing.
LARGEST_HEAD = 1 << 16
IDLE = 60.0

_log = logging.getLogger("wengert.explorer")


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose body has arrived. Its path begins with a slash; the query is what follows a question mark."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes = b""

    def all(self, name: str) -> list[str]:
        """Return every header field of this name."""
        return [str(value) for value in self.headers.get_all(name, [])]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: a body, or chunks that are sent as they come, until `ended` is called.

    With `keeps` the connection takes another request.
    """

    status: HTTPStatus
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    chunks: AsyncIterator[bytes] | None = None
    ended: Callable[[], None] | None = None
    keeps: bool = False


Answer = Callable[[Request], Response]


class Listener:
    """A listening socket of this machine. Used as `async with`; its connections end with it."""

    def __init__(self, answer: Answer, host: str, port: int, largest_body: int) -> None:
        self._answer, self._host, self._port, self._largest = answer, host, port, largest_body
        self._connections: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Server

    async def __aenter__(self) -> Listener:
        self._serving = await asyncio.start_server(self._connected, self._host, self._port, limit=LARGEST_HEAD)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._serving.close()
        ending = list(self._connections)
        for connection in ending:
            connection.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses that it listens on."""
        return [s.getsockname()[:2] for s in self._serving.sockets]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            # A connection that breaks, or is given up when the server ends, is no error.
            with suppress(OSError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    continue
        finally:
            self._connections.discard(task)
            with suppress(OSError):
                writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and return whether another may follow."""
        try:
            found = await asyncio.wait_for(self._read(reader), IDLE)
        except (TimeoutError, asyncio.IncompleteReadError):
            return False
        except (asyncio.LimitOverrunError, ValueError, http.client.HTTPException):
            found = Response(HTTPStatus.BAD_REQUEST)
        response = self._answered(found) if isinstance(found, Request) else found
        keeps = response.keeps and isinstance(found, Request) and not _closes(found)
        try:
            await _send(response, keeps, reader, writer)
        finally:
            if response.ended is not None:
                response.ended()
        return keeps

    def _answered(self, request: Request) -> Response:
        """Return the answer. An error of the program's is a line of the log, and the connection ends."""
        try:
            return self._answer(request)
        except Exception as e:
            _log.error("%s %r: %s: %s", request.method, request.path, type(e).__name__, e)
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _read(self, reader: asyncio.StreamReader) -> Request | Response:
        head = await reader.readuntil(b"\r\n\r\n")
        first, _, rest = head.partition(b"\r\n")
        parts = first.decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[1].startswith("/") or not parts[2].startswith("HTTP/1."):
            return Response(HTTPStatus.BAD_REQUEST)
        headers = http.client.parse_headers(io.BytesIO(rest))
        lengths = headers.get_all("Content-Length", ["0"])
        if "Transfer-Encoding" in headers or len(lengths) != 1 or not lengths[0].isdecimal():
            return Response(HTTPStatus.LENGTH_REQUIRED)
        if int(lengths[0]) > self._largest:
            return Response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        path, _, query = parts[1].partition("?")
        return Request(parts[0], path, query, headers, await reader.readexactly(int(lengths[0])))


def _closes(request: Request) -> bool:
    return any("close" in value.lower() for value in request.all("Connection"))


async def _send(response: Response, keeps: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    fields = dict(response.headers)
    if response.chunks is None:
        fields["Content-Length"] = str(len(response.body))
    else:
        fields["Transfer-Encoding"] = "chunked"
    if not keeps:
        fields["Connection"] = "close"
    lines = [f"HTTP/1.1 {int(response.status)} {response.status.phrase}", *(f"{k}: {v}" for k, v in fields.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + response.body)
    await writer.drain()
    if response.chunks is not None:
        await _stream(response.chunks, reader, writer)


async def _stream(chunks: AsyncIterator[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send chunks until they end or the other side has gone: it says nothing more, so what comes is its end."""

    async def send() -> None:
        async for chunk in chunks:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(send()), asyncio.ensure_future(reader.read(1))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
