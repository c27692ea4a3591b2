"""Connections that are passed on to a server end when the server ends them, however it does."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from contextlib import closing

import pytest

from demo.kubernetes import forward


@pytest.mark.parametrize("reset", [True, False])
def test_a_connection_that_the_server_ends_is_ended_for_the_client(reset: bool) -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        closing(socket.create_server(("127.0.0.1", 0))) as door,
    ):
        port = str(server.getsockname()[1])
        command = [sys.executable, str(forward.__file__), str(door.fileno()), "127.0.0.1", port]
        process = subprocess.Popen(command, pass_fds=[door.fileno()])
        try:
            with closing(socket.create_connection(door.getsockname(), timeout=30)) as client:
                there, _ = server.accept()
                client.sendall(b"asked")
                assert there.recv(16) == b"asked"
                if reset:
                    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                there.close()
                assert client.recv(16) == b""
        finally:
            process.kill()
            process.wait()
