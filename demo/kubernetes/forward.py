"""Pass connections on, from a listening socket that the process has inherited to an address.

``python forward.py FD HOST PORT``.

The socket stays in the network in which it was made, and the connections begin in the one in which this process runs:
so a port of the machine leads to a server in the node's own network, or one of the node to a server of the machine.
"""

from __future__ import annotations

import asyncio
import socket
import sys

_PIECE = 1 << 16


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:  # one side was reset: the other would wait for ever
        writer.close()


async def _serve(listener: socket.socket, host: str, port: int) -> None:
    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        back.close()
        writer.close()

    async with await asyncio.start_server(join, sock=listener) as server:
        await server.serve_forever()


if __name__ == "__main__":
    descriptor, host, port = sys.argv[1:]
    asyncio.run(_serve(socket.socket(fileno=int(descriptor)), host, int(port)))
