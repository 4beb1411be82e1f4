"""Fetches one file over HTTP through the network and hashes it as it streams.

The address is one that the service intercepts (``intercept.v1``): the patched
socket module finds the service by it, as in any program of this SDK.
"""

import argparse
import hashlib
import http.client
import socket
import time

import openziti

import outcome

args = argparse.ArgumentParser(description=__doc__)
args.add_argument("--identity", required=True)
args.add_argument("--address", required=True, help="host:port that the service intercepts")
args.add_argument("--path", default="/")
args.add_argument("--sha256", help="expected SHA-256 of the body (hex)")
args.add_argument("--timeout", type=float, default=120)
args = args.parse_args()


def fetch():
    deadline = time.monotonic() + args.timeout
    openziti.load(args.identity)
    host, port = args.address.rsplit(":", 1)
    with openziti.monkeypatch():
        client = http.client.HTTPConnection(host, int(port))
        # The wheel's create_connection takes an address alone; http.client passes more.
        client.sock = socket.create_connection((host, int(port)))
        client.request("GET", args.path)
        response = client.getresponse()
        if response.status != 200:
            return {"error": f"GET {args.path}: {response.status} {response.reason}"}
        expected = response.length
        digest, count = hashlib.sha256(), 0
        while chunk := response.read(1 << 16):
            digest.update(chunk)
            count += len(chunk)
            if time.monotonic() > deadline:
                return {"error": f"deadline after {count} bytes"}
    fields = {"bytes": count, "sha256": digest.hexdigest()}
    if expected is not None and count != expected:
        fields["error"] = f"{count} of {expected} bytes"
    elif args.sha256 and fields["sha256"] != args.sha256:
        fields["error"] = f"SHA-256 is {fields['sha256']}, expected {args.sha256}"
    return fields


outcome.run("fetch", args.timeout, fetch)
