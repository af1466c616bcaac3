"""The local server: who may open it, what it sends to whom, and what a slow page misses."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.explorer import server as module
from wengert.explorer.server import Exploring, Message, Post, Server


class Echo:
    """An application that answers every message with itself."""

    title = "echo"
    kind = "playground"
    document: dict[str, Any] = {"schema": "wengert.trace/1"}  # noqa: RUF012

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.open_pages = 0

    def open(self, post: Post) -> Any:
        self.posts.append(post)
        self.open_pages += 1
        return _Echoing(self, post)


class _Echoing:
    def __init__(self, app: Echo, post: Post) -> None:
        self.app, self.post = app, post

    def receive(self, message: object) -> None:
        self.post(Message({"type": "echo", "message": message}))

    def close(self) -> None:
        self.app.open_pages -= 1


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a few bytes in the place of the built one."""
    monkeypatch.setattr(module.page, "asset", lambda name: f"/* {name} */")
    monkeypatch.setattr(module.page, "parts", lambda: ("later.js",))


def serving(test: Callable[[Server], Awaitable[None]], app: Any = None) -> None:
    async def whole() -> None:
        async with Server(app or Echo()) as server:
            await asyncio.wait_for(test(server), 20)

    asyncio.run(whole())


async def get(
    server: Server, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    """A request as it stands on the wire; `Host` is the server's own unless it is given."""
    fields = {"Host": f"127.0.0.1:{server.port}", **headers}
    if body is not None:
        fields["Content-Length"] = str(len(body))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
    writer.write("\r\n".join(lines).encode() + (body or b""))
    head, _, answered = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    status, *rest = head.split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in rest), answered


def opening(server: Server) -> str:
    return server.url.partition(str(server.port))[2]


async def admitted(server: Server) -> str:
    """The cookie that the opening address gives."""
    status, headers, _ = await get(server, opening(server))
    assert status == 200
    return headers["Set-Cookie"].partition(";")[0]


class Refused(Exception):
    """A conversation that was refused, with the status."""


class Page:
    """What a page does: it listens to the stream, and says things in requests."""

    def __init__(self, server: Server, cookie: str, origin: str | None = "http://127.0.0.1:{port}") -> None:
        self.server = server
        self.headers = {"Cookie": cookie}
        if origin is not None:
            self.headers["Origin"] = origin.format(port=server.port)

    async def __aenter__(self) -> Page:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        fields = {"Host": f"127.0.0.1:{self.server.port}", **self.headers}
        lines = ["POST /stream HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
        self.writer.write("\r\n".join(lines).encode())
        status = int((await self.reader.readline()).split()[1])
        if status != 200:
            self.writer.close()
            raise Refused(status)
        await self.reader.readuntil(b"\r\n\r\n")
        self.name = (await self.recv())["stream"]
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    async def recv(self) -> Any:
        size = int(await self.reader.readline(), 16)
        chunk = await self.reader.readexactly(size)
        assert await self.reader.readexactly(2) == b"\r\n"
        assert int.from_bytes(chunk[:4], "little") == size - 4
        length = int.from_bytes(chunk[4:8], "little")
        return json.loads(chunk[8 : 8 + length])

    async def say(self, *messages: Any) -> int:
        return await self.post(json.dumps(messages).encode())

    async def post(self, body: bytes, stream: str | None = None) -> int:
        path = f"/messages?stream={self.name if stream is None else stream}"
        return (await get(self.server, path, method="POST", body=body, Connection="close", **self.headers))[0]


# -- who may


def test_the_opening_address_works_once() -> None:
    async def test(server: Server) -> None:
        assert server.url.startswith("http://127.0.0.1:")
        cookie = await admitted(server)
        assert (await get(server, opening(server)))[0] == 403
        # Whoever came in may load the page again.
        assert (await get(server, "/", Cookie=cookie))[0] == 200
        assert (await get(server, opening(server), Cookie=cookie))[0] == 200

    serving(test)


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=guess", "/explorer.js", "/explorer.css", "/stream", "/x"])
def test_nothing_without_the_token(path: str) -> None:
    async def test(server: Server) -> None:
        status, headers, body = await get(server, path)
        assert status == 403
        assert "Set-Cookie" not in headers
        assert server._session not in body
        # A wrong guess uses nothing up.
        await admitted(server)

    serving(test)


@pytest.mark.parametrize("cookie", ["wengert-{port}=guess", "other=1", "wengert-{port}=", "=;;=", "wengert-{port}=é"])
def test_wrong_cookies_are_refused(cookie: str) -> None:
    async def test(server: Server) -> None:
        given = cookie.format(port=server.port)
        assert (await get(server, "/explorer.js", Cookie=given))[0] == 403

    serving(test)


@pytest.mark.parametrize(
    "host", ["evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
def test_other_hosts_are_refused(host: str) -> None:
    """A name that was bent to 127.0.0.1: the browser sends it, and what it asks for is not given."""

    async def test(server: Server) -> None:
        cookie = await admitted(server)
        name = host.format(port=server.port)
        assert (await get(server, "/explorer.js", Cookie=cookie, Host=name))[0] == 403
        assert (await get(server, "/", Cookie=cookie, Host=name))[0] == 403

    serving(test)


def test_localhost_is_a_name_of_its_own() -> None:
    async def test(server: Server) -> None:
        status, headers, _ = await get(server, opening(server), Host=f"localhost:{server.port}")
        assert status == 200
        assert "connect-src 'self'" in headers["Content-Security-Policy"]

    serving(test)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", None]
)
def test_conversations_of_other_origins_are_refused(origin: str | None) -> None:
    async def test(server: Server) -> None:
        cookie = await admitted(server)
        with pytest.raises(Refused, match="403"):
            await Page(server, cookie, origin).__aenter__()
        async with Page(server, cookie) as page:
            other = Page(server, cookie, origin)
            assert await other.post(b"[1]", page.name) == 403

    serving(test)


def test_a_conversation_needs_the_cookie_and_its_own_name() -> None:
    async def test(server: Server) -> None:
        cookie = await admitted(server)
        with pytest.raises(Refused, match="403"):
            await Page(server, "none=1").__aenter__()
        async with Page(server, cookie) as page:
            assert await page.post(b"[1]", "guess") == 404
            assert await page.post(b"[1]", "") == 404
            assert await page.say("mine") == 204
            assert (await page.recv())["message"] == "mine"

    serving(test)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / SPDY/1\r\n\r\n", 400),
        (b"GET [ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 200 + b"\r\n", 400),
        (b"POST /messages HTTP/1.1\r\nContent-Length: x\r\n\r\n", 411),
        (b"POST /messages HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 411),
        (b"POST /messages HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 411),
        (b"POST /messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /messages HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n", 413),
    ],
    ids=[
        "two words",
        "nonsense",
        "protocol",
        "no path",
        "an address",
        "long",
        "many",
        "length",
        "negative",
        "lengths",
        "chunked",
        "too long",
    ],
)
def test_what_is_no_request(head: bytes, status: int) -> None:
    async def test(server: Server) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head)
        answered = await reader.read()
        writer.close()
        assert answered.startswith(b"HTTP/1.1 %d " % status)
        await admitted(server)

    serving(test)


@pytest.mark.parametrize("target", ["//[", "//[::1]/", "/%", "/?%=[", "///", "/\0", "/\xff", "/?token=\xe9"])
def test_odd_targets_are_answered(target: str) -> None:
    async def test(server: Server) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        host = f"Host: 127.0.0.1:{server.port}\r\nConnection: close"
        writer.write(f"GET {target} HTTP/1.1\r\n{host}\r\n\r\n".encode("latin-1"))
        answered = await reader.read()
        writer.close()
        assert answered.startswith(b"HTTP/1.1 403 ")
        await admitted(server)

    serving(test)


def test_an_error_of_the_program_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: Server) -> None:
        server._page = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        target = server.url.partition(str(server.port))[2]
        writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        answered = await reader.read()
        writer.close()
        assert answered.startswith(b"HTTP/1.1 500 ")

    serving(test)
    assert [r.getMessage() for r in caplog.records] == ["GET '/': ZeroDivisionError: division by zero"]


def test_a_connection_that_ends_early_harms_nobody() -> None:
    async def test(server: Server) -> None:
        for begun in (b"", b"GET /", b"POST /messages HTTP/1.1\r\nContent-Length: 5\r\n\r\n12"):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(begun)
            writer.close()
        await admitted(server)

    serving(test)


def test_headers_keep_the_page_to_itself() -> None:
    async def test(server: Server) -> None:
        status, headers, body = await get(server, opening(server))
        assert status == 200
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert {"HttpOnly", "SameSite=Strict"} <= set(re.split("; ?", headers["Set-Cookie"]))
        assert '<meta name="wengert-server" content="playground">' in body
        assert not re.search(r"https?://", body)

    serving(test)


def test_assets_and_nothing_else() -> None:
    async def test(server: Server) -> None:
        cookie = await admitted(server)
        for name in ("explorer.js", "explorer.css", "later.js"):
            assert (await get(server, f"/{name}", Cookie=cookie))[2] == f"/* {name} */"
        for path in ("/explorer.py", "/parts.json", "/../server.py", "/static/explorer.js", "/%2e%2e/page.py"):
            assert (await get(server, path, Cookie=cookie))[0] == 404
        assert (await get(server, "/x", method="POST", Cookie=cookie))[0] == 405

    serving(test)


# -- messages


def test_messages_come_back_in_order() -> None:
    async def test(server: Server) -> None:
        async with Page(server, await admitted(server)) as page:
            for i in range(0, 20, 2):
                assert await page.say({"i": i}, {"i": i + 1}) == 204
            got = [(await page.recv())["message"]["i"] for _ in range(20)]
        assert got == list(range(20))

    serving(test)


@pytest.mark.parametrize("raw", [b"{", b"", b"\0\1", b'{"a": ' * 5000, b"[" * 100000, b"1", b'{"type": "x"}'])
def test_what_is_no_list_of_messages_gets_an_error(raw: bytes) -> None:
    async def test(server: Server) -> None:
        async with Page(server, await admitted(server)) as page:
            await page.post(raw)
            assert (await page.recv())["type"] == "error"
            await page.say({"still": "here"})
            assert (await page.recv())["message"] == {"still": "here"}

    serving(test)


def test_what_is_too_long_is_not_taken() -> None:
    async def test(server: Server) -> None:
        async with Page(server, await admitted(server)) as page:
            # The rest is not read.
            with suppress(ConnectionError):
                assert await page.say("x" * (module.LARGEST_MESSAGE + 1)) == 413
            await page.say(1)
            assert (await page.recv())["message"] == 1

    serving(test)


def test_requests_follow_one_another_on_a_connection() -> None:
    async def test(server: Server) -> None:
        async with Page(server, await admitted(server)) as page:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            fields = {"Host": f"127.0.0.1:{server.port}", "Content-Length": "3", **page.headers}
            head = "".join(f"{k}: {v}\r\n" for k, v in fields.items())
            for i in range(3):
                writer.write(f"POST /messages?stream={page.name} HTTP/1.1\r\n{head}\r\n[{i}]".encode())
                assert b" 204 " in await reader.readuntil(b"\r\n\r\n")
                assert (await page.recv())["message"] == i
            writer.close()

    serving(test)


def test_a_slow_page_gets_the_newest_frame() -> None:
    app = Echo()

    async def test(server: Server) -> None:
        async with Page(server, await admitted(server)) as page:
            while not app.posts:
                await asyncio.sleep(0.01)
            (post,) = app.posts
            for i in range(50):
                post(Message({"type": "frame", "i": i}, kind="frame"))
                await asyncio.sleep(0.002)
            post(Message({"type": "answer"}))
            got = [(await page.recv()) for _ in range(module.IN_FLIGHT + 1)]
            # What no page has painted is not piled up; answers pass by.
            assert [m["type"] for m in got] == ["frame"] * module.IN_FLIGHT + ["answer"]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(page.recv(), 0.2)
            await page.say({"type": "seen", "frame": got[0]["frame"]})
            assert (await page.recv())["i"] == 49
            (outbox,) = server.outboxes
            assert outbox.dropped == 50 - module.IN_FLIGHT - 1

    serving(test, app)


@pytest.mark.parametrize("frame", [-1, 10**9, "1", None, 1.5, True])
def test_a_page_that_lies_about_what_it_has_seen(frame: Any) -> None:
    app = Echo()

    async def test(server: Server) -> None:
        async with Page(server, await admitted(server)) as page:
            await page.say({"type": "seen", "frame": frame})
            await page.say(1)
            await page.recv()
            for i in range(10):
                app.posts[0](Message({"i": i}, kind="frame"))
                await asyncio.sleep(0.01)
            got = [(await page.recv())["i"] for _ in range(module.IN_FLIGHT)]
            assert got == sorted(got)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(page.recv(), 0.1)

    serving(test, app)


def test_payloads_stand_behind_their_header() -> None:
    sent = Message({"a": 1}, b"\1\2\3", kind="frame").encoded(7)
    assert isinstance(sent, bytes)
    length = int.from_bytes(sent[:4], "little")
    assert length % 4 == 0
    assert json.loads(sent[4 : 4 + length]) == {"a": 1, "frame": 7}
    assert sent[4 + length :] == b"\1\2\3"


def test_a_closed_page_ends_its_conversation() -> None:
    app = Echo()

    async def test(server: Server) -> None:
        cookie = await admitted(server)
        async with Page(server, cookie):
            while app.open_pages == 0:
                await asyncio.sleep(0.01)
        while app.open_pages or server.outboxes:
            await asyncio.sleep(0.01)
        # Whoever still posts then is not answered, and does no harm.
        app.posts[0](Message({"late": True}))

    serving(test, app)


def test_pages_are_counted() -> None:
    async def test(server: Server) -> None:
        cookie = await admitted(server)
        pages = [await Page(server, cookie).__aenter__() for _ in range(module.MOST_CLIENTS)]
        with pytest.raises(Refused, match="503"):
            await Page(server, cookie).__aenter__()
        for page in pages:
            page.writer.close()

    serving(test)


# -- the explorer


def test_whole_tensors_are_told_on_demand() -> None:
    x = wg.tensor(np.linspace(-3.0, 5.0, 500), requires_grad=True)
    found = wg.explore(lambda: (x * x).sum())
    row = next(r for r in found.recording.rows if r.op is not None and r.op.name == "multiply")

    async def test(server: Server) -> None:
        async with Page(server, await admitted(server)) as page:
            await page.say({"type": "details", "id": 5, "node": row.index, "gradient": False})
            told = await page.recv()
            assert told["id"] == 5
            assert told["details"]["size"] == 500
            assert told["details"]["max"] == pytest.approx(25.0)
            for wrong in ({"id": 1, "node": 10**9, "gradient": False}, {"id": "a"}, 7, [], {"type": "details"}):
                await page.say(wrong)
                assert (await page.recv())["type"] == "error"

    serving(test, Exploring(found))


# -- beginning and end


def test_it_listens_on_this_machine_only() -> None:
    async def test(server: Server) -> None:
        assert [host for host, _ in server._listener.addresses] == ["127.0.0.1"]

    serving(test)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_ends_it() -> None:
    command = [sys.executable, "-m", "wengert", "playground", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{40,}\n", lines[1])
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0
    assert errors == ""
