"""The few management API calls that the runner needs, on the standard library.

Certificates are always verified: against the CA file given, or against the
bundle that the controller publishes, fetched once at the start.
"""

import base64
import http.client
import json
import ssl
import time
import urllib.parse

MANAGEMENT = "/edge/management/v1"
CACERTS = "/edge/client/v1/.well-known/est/cacerts"


class ApiError(Exception):
    """An answer with another status than the expected one."""


class Api:
    """One administrator's session. Ids are text; ``create`` returns the new one."""

    def __init__(self, url, username, password, ca_file=None, base=MANAGEMENT):
        self.base = MANAGEMENT
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ApiError(f"the controller's URL must be https://host:port, not {url!r}")
        self.host, self.port = parts.hostname, parts.port or 443
        if ca_file:
            self.tls = ssl.create_default_context(cafile=ca_file)
        else:
            self.tls = ssl.create_default_context(cadata=self._published_cas())
        self.tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self.token = None
        credentials = {"username": username, "password": password}
        self.token = self.call("POST", "/authenticate?method=password", credentials)["token"]
        self.base = base

    def call(self, method, path, body=None):
        """The ``data`` of the answer."""
        return self._envelope(method, path, body)["data"]

    def list(self, path):
        """All items of a list, page by page."""
        items, mark = [], "&" if "?" in path else "?"
        while True:
            answer = self._envelope("GET", f"{path}{mark}limit=100&offset={len(items)}")
            items += answer["data"] or []
            if not answer["data"] or len(items) >= answer["meta"]["pagination"]["totalCount"]:
                return items

    def create(self, kind, **fields):
        return self.call("POST", f"/{kind}", fields)["id"]

    def delete(self, kind, identifier):
        self.call("DELETE", f"/{kind}/{identifier}")

    def _envelope(self, method, path, body=None):
        headers = {"Accept": "application/json"}
        if self.token:
            headers["zt-session"] = self.token
        if body is not None:
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        status, raw = self._request(self.tls, method, self.base + path, body, headers)
        if not 200 <= status < 300:
            raise ApiError(f"{method} {path}: {status} {raw[:600].decode(errors='replace')}")
        return json.loads(raw) if raw else {"data": {}}

    def _request(self, tls, method, path, body=None, headers=None):
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=60, context=tls)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _published_cas(self):
        blind = ssl.create_default_context()
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
        status, raw = self._request(blind, "GET", CACERTS)
        if status != 200:
            raise ApiError(f"GET {CACERTS}: {status}")
        cas = b"".join(certificates_of(base64.b64decode(raw)))
        if not cas:
            raise ApiError(f"GET {CACERTS}: no certificate in it")
        return cas


def certificates_of(pkcs7):
    """The DER certificates of a certs-only PKCS #7 message (RFC 5652, section 5.1)."""
    content = element(pkcs7, 0)[1]  # ContentInfo: the type's id, then [0] content
    _, _, after = element(content, 0)
    signed_data = element(element(content, after)[1], 0)[1]
    at = 0
    while at < len(signed_data):
        tag, value, end = element(signed_data, at)
        if tag == 0xA0:  # certificates
            inner = 0
            while inner < len(value):
                _, _, next_one = element(value, inner)
                yield value[inner:next_one]
                inner = next_one
            return
        at = end


def element(data, at):
    """One DER element: its tag, its value, and where the next one begins."""
    tag, length, start = data[at], data[at + 1], at + 2
    if length & 0x80:
        octets = length & 0x7F
        length = int.from_bytes(data[start : start + octets], "big")
        start += octets
    if start + length > len(data):
        raise ApiError("the published CA bundle ends inside a certificate")
    return tag, data[start : start + length], start + length


def wait_until(what, seconds, condition):
    """Calls ``condition`` until the result is true, and returns the result."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise ApiError(f"{what}: not within {seconds} s")
        time.sleep(0.1)
