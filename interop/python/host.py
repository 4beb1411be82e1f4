"""Hosts a service: sends every connection its bytes back, or splices it to a
local TCP address when ``--target`` names one. Half-closes are passed on."""

import argparse
import socket
import sys
import threading

import openziti

import outcome

args = argparse.ArgumentParser(description=__doc__)
args.add_argument("--identity", required=True)
args.add_argument("--service", required=True)
args.add_argument("--target", help="local host:port to splice to; without it: echo")
args.add_argument("--timeout", type=float, default=120, help="how long to serve")
args = args.parse_args()


def pump(source, sink):
    """Moves bytes until ``source`` ends, then half-closes ``sink``."""
    try:
        while chunk := source.recv(1 << 16):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other direction ends by itself


def serve(connection):
    with connection:
        if not args.target:
            pump(connection, connection)
            return
        host, port = args.target.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as local:
            back = threading.Thread(target=pump, args=(local, connection), daemon=True)
            back.start()
            pump(connection, local)
            back.join()


def host():
    listener = openziti.load(args.identity).bind(args.service)
    # The native SDK (0.29.3) counts every connection that had to wait for accept(), and never
    # counts down: once over the backlog it turns connections away for good, without an answer.
    listener.listen(1 << 30)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    print("READY", file=sys.stderr, flush=True)
    accepting.join(args.timeout)
    return {} if accepting.is_alive() else {"error": "accepting ended before its time"}


outcome.run("host", args.timeout, host)
