"""A web server behind a slow link, on loopback: ``python -m pipelines.bench.link FOLDER``.

Every request waits for the latency, and all responses share the bandwidth.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Seconds before the first byte of a response, and bytes per second of the link.
LATENCY, BANDWIDTH = 0.02, 100e6
#: Bytes that are sent at once.
PIECE = 2**18


class Link:
    """A server of the files below a folder.

    Parameters
    ----------
    folder
        The folder.
    latency, bandwidth
        Those of the link.
    """

    def __init__(self, folder: Path, latency: float, bandwidth: float) -> None:
        self.folder, self.latency, self.bandwidth = folder, latency, bandwidth
        self._free = 0.0  # when the link has sent all that was given to it

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(self.latency)
                await self._answer(head.decode("latin-1"), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        request, *lines = head.split("\r\n")
        path = self.folder / request.split(" ")[1].lstrip("/")
        content = path.read_bytes() if path.is_file() else None
        status, more = "200 OK", ""
        if content is None:
            status, content = "404 Not Found", b""
        for line in lines:
            if line.lower().startswith("range: bytes=") and status.startswith("200"):
                first, last = line.split("=")[1].split("-")
                n_bytes = len(content)
                content = content[int(first) : int(last) + 1]
                more = f"Content-Range: bytes {first}-{int(first) + len(content) - 1}/{n_bytes}\r\n"
                status = "206 Partial Content"
        writer.write(f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(content)}\r\n\r\n".encode())
        for start in range(0, len(content), PIECE):
            piece = content[start : start + PIECE]
            self._free = max(self._free, time.monotonic()) + len(piece) / self.bandwidth
            await asyncio.sleep(self._free - time.monotonic())
            writer.write(piece)
            await writer.drain()


@contextmanager
def slow_link(
    folder: Path, latency: float = LATENCY, bandwidth: float = BANDWIDTH
) -> Iterator[str]:
    """Serve a folder from another process in a ``with`` block, whose value is the URL."""
    command = [sys.executable, "-m", __name__, str(folder), str(latency), str(bandwidth)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


async def _main(folder: str, latency: str, bandwidth: str) -> None:
    link = Link(Path(folder), float(latency), float(bandwidth))
    server = await asyncio.start_server(link.serve, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
