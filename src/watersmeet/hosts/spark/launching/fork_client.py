"""Run in place of a Python that Spark starts on the driver (see fork_server.py): has one forked that has loaded what it
needs, and lives as long as that one does. Where none can be had it becomes the Python that was asked for.

It is run by itself, for each stream of each query, so it imports next to nothing.
"""

import json
import os
import socket
import sys

VARIABLE = "WATERSMEET_FORK_SERVER"  # where the socket is
YES = b"y"


def forked(module: str) -> socket.socket | None:
    """A connection that ends with the process that was forked. That one writes where this one does."""
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(os.environ[VARIABLE])
        request = json.dumps({"module": module, "environment": dict(os.environ)}).encode()
        socket.send_fds(server, [len(request).to_bytes(8, "big")], [1, 2])
        server.sendall(request)
        if server.recv(1) == YES:
            return server
    except (OSError, KeyError):
        pass
    server.close()
    return None


def main() -> None:
    arguments = sys.argv[1:]  # -m and a module
    running = forked(arguments[1])
    if running is None:
        os.execv(sys.executable, [sys.executable, *arguments])
    running.recv(1)


if __name__ == "__main__":
    main()
