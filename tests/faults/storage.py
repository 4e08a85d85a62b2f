"""A proxy in front of an S3 server that fails on command.

The command is a JSON file with a mode, the share of requests that it applies to, and the time until
which it does.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

#: What the proxy can do to a request.
MODES = ("fail", "throttle", "drop", "slow", "hang", "stale", "damage")
ERRORS = {
    "fail": ("500 Internal Server Error", "InternalError"),
    "throttle": ("503 Slow Down", "SlowDown"),
}


@dataclass(frozen=True)
class Request:
    """A request or a response: its first line, headers and body."""

    first: str
    headers: dict[str, str]
    body: bytes

    @property
    def method(self) -> str:
        return self.first.split(" ")[0]

    @property
    def path(self) -> str:
        return self.first.split(" ")[1]

    def encoded(self) -> bytes:
        lines = [self.first, *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None) -> Request:
    """Read a request; without a writer, a response whose connection ends with it."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if ": " in line)
    headers = {name.lower(): value for name, value in headers.items()}
    if writer is not None and headers.pop("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Request(first, headers, await _chunked(reader))
    n_bytes = int(headers.get("content-length", 0))
    body = await (reader.readexactly(n_bytes) if writer is not None else reader.read())
    return Request(first, headers, body)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    """Return the raw body of a message in chunks."""
    parts = []
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        parts += [line, await reader.readexactly(size + 2)]
        if not size:
            return b"".join(parts)


class Proxy:
    """Forwards requests to a server, and does to some of them what the file commands."""

    def __init__(self, port: int, command: Path) -> None:
        self.port, self.command = port, command
        self.older: dict[str, bytes | None] = {}
        self.random = random.Random(0)

    def mode(self) -> str:
        found = json.loads(self.command.read_text())
        active = time.monotonic() < found["until"]
        return found["mode"] if active and self.random.random() < found["rate"] else ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await read(reader, writer)
                if not await self.answer(request, self.mode(), writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, request: Request, mode: str, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; return whether the connection stays open."""
        if mode in ERRORS:
            status, code = ERRORS[mode]
            body = f"<Error><Code>{code}</Code><Message>please wait</Message></Error>".encode()
            response = Request(f"HTTP/1.1 {status}", {"content-type": "text/xml"}, body)
            await send(writer, response, head=request.method == "HEAD")
            return True
        if mode == "hang":
            while self.mode() == "hang":
                await asyncio.sleep(0.1)
            return False
        if mode == "slow":
            await asyncio.sleep(self.random.uniform(0.2, 1.5))
        path = request.path.partition("?")[0]
        if mode == "stale" and request.method == "GET" and path in self.older:
            await send(writer, self._older(request, path))
            return True
        if request.method == "PUT" and "?" not in request.path:
            await asyncio.to_thread(self._remember, path)
        response = await self._forward(request)
        if mode == "drop":
            writer.write(response.encoded()[: -max(1, len(response.body) // 2)])
            await writer.drain()
            return False
        if mode == "damage" and request.method == "GET" and len(response.body) > 200:
            body = bytearray(response.body)
            body[self.random.randrange(len(body))] ^= 1 << self.random.randrange(8)
            response = Request(response.first, response.headers, bytes(body))
        await send(writer, response, head=request.method == "HEAD")
        return True

    async def _forward(self, request: Request) -> Request:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(
            Request(
                request.first, request.headers | {"connection": "close"}, request.body
            ).encoded()
        )
        await writer.drain()
        response = await read(reader, None)
        writer.close()
        return response

    def _remember(self, path: str) -> None:
        """Keep the content of an object before it is replaced; None if there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as found:
                self.older[path] = found.read()
        except OSError:
            self.older[path] = None

    def _older(self, request: Request, path: str) -> Request:
        content = self.older[path]
        if content is None:
            body = b"<Error><Code>NoSuchKey</Code><Message>not yet</Message></Error>"
            return Request("HTTP/1.1 404 Not Found", {"content-type": "text/xml"}, body)
        if "range" in request.headers:
            first, last = request.headers["range"].removeprefix("bytes=").split("-")
            part = content[int(first) : int(last) + 1 if last else None]
            span = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
            return Request("HTTP/1.1 206 Partial Content", {"content-range": span}, part)
        return Request("HTTP/1.1 200 OK", {}, content)


async def send(writer: asyncio.StreamWriter, response: Request, *, head: bool = False) -> None:
    """Send a response; the connection stays open."""
    headers = {name: value for name, value in response.headers.items() if name != "connection"}
    if "transfer-encoding" not in headers and not head:
        headers["content-length"] = str(len(response.body))
    writer.write(Request(response.first, headers, b"" if head else response.body).encoded())
    await writer.drain()


def make_bucket(port: int, name: str) -> None:
    """Make a bucket, as soon as the server answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    for _ in range(300):
        try:
            urllib.request.urlopen(request).close()
        except ConnectionError:
            time.sleep(0.2)
        except urllib.error.URLError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("the S3 server does not answer")


async def _main(host: str, port: str, server: str, command: str, bucket: str) -> None:
    make_bucket(int(server), bucket)
    proxy = Proxy(int(server), Path(command))
    listening = await asyncio.start_server(proxy.serve, host, int(port), limit=2**20)
    print("ready", flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
