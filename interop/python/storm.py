"""Opens many connections at once; each sends random bytes with their hash in
front, half-closes, and must read the same bytes back to their end.

With ``--late`` each stays quiet after its half-close before it reads. With
``--no-half-close`` it reads as many bytes as it sent, and then closes.
"""

import argparse
import hashlib
import os
import socket
import threading
import time

import openziti

import outcome

args = argparse.ArgumentParser(description=__doc__)
args.add_argument("--identity", required=True)
args.add_argument("--address", required=True, help="host:port that the service intercepts")
args.add_argument("--n", type=int, default=200)
args.add_argument("--size", type=int, default=4096)
args.add_argument("--late", action="store_true")
args.add_argument("--no-half-close", dest="half_close", action="store_false")
args.add_argument("--timeout", type=float, default=120)
args = args.parse_args()

HOST, PORT = args.address.rsplit(":", 1)


# The native SDK (0.29.3) closes a connection's descriptor twice, the second time
# perhaps somebody else's. So no connection is closed while others still dial:
# all stay open until the end.
CONNECTIONS = []
DIALED = threading.Semaphore(0)
ALL_DIALED = threading.Event()


def round_trip(context):
    body = os.urandom(args.size)
    message = hashlib.sha256(body).digest() + body
    try:
        connection = context.connect((HOST, int(PORT)))
        CONNECTIONS.append(connection)
    finally:
        DIALED.release()
    ALL_DIALED.wait(args.timeout)
    connection.sendall(message)
    if args.half_close:
        connection.shutdown(socket.SHUT_WR)
    if args.late:
        time.sleep(0.5)
    answer = bytearray()
    while args.half_close or len(answer) < len(message):
        chunk = connection.recv(1 << 16)
        if not chunk:
            break
        answer += chunk
    if answer != message:
        raise ValueError(f"{len(answer)} bytes came back, not the {len(message)} sent")


def storm():
    context = openziti.load(args.identity)
    failures, verified, lock = [], 0, threading.Lock()

    def one():
        nonlocal verified
        try:
            round_trip(context)
            with lock:
                verified += 1
        except Exception as error:
            with lock:
                failures.append(f"{type(error).__name__}: {error}")

    deadline = time.monotonic() + args.timeout
    threads = [threading.Thread(target=one, daemon=True) for _ in range(args.n)]
    for thread in threads:
        thread.start()
    for _ in threads:
        DIALED.acquire(timeout=max(0, deadline - time.monotonic()))
    ALL_DIALED.set()
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    for connection in CONNECTIONS:
        connection.close()
    with lock:
        fields = {"total": args.n, "verified": verified, "bytes": verified * args.size}
        if verified != args.n:
            stuck = args.n - verified - len(failures)
            first = failures[0] if failures else "none reported"
            fields["error"] = f"{len(failures)} failed, {stuck} unfinished; first: {first}"
    return fields


outcome.run("halfclose" if args.late else "storm", args.timeout, storm)
