"""The network under test: one that runs already, or one started for the run;
and everything that the run creates in it, to be deleted at the end."""

import os
import re
import subprocess
import sys

from api import Api, ApiError, wait_until
from clients import intercepted


class Network:
    """A controller's API with the entities of one run. All their names begin
    with ``prefix``; ``remove`` deletes them in reverse order."""

    def __init__(self, api, prefix):
        self.api = api
        self.prefix = prefix
        self.made = []
        self.undo = []
        kinds = api.list("/config-types")
        self.config_types = {kind["name"]: kind["id"] for kind in kinds}

    def make(self, kind, name, **fields):
        identifier = self.api.create(kind, name=f"{self.prefix}-{name}", **fields)
        self.made.append((kind, identifier))
        return identifier

    def policies(self):
        """All identities use all routers; the run's dialers dial its services;
        each host binds the services that carry its attribute."""
        self.make(
            "edge-router-policies", "routers", semantic="AnyOf",
            identityRoles=["#all"], edgeRouterRoles=["#all"],
        )
        self.make(
            "service-edge-router-policies", "routers", semantic="AnyOf",
            serviceRoles=["#all"], edgeRouterRoles=["#all"],
        )
        self.make(
            "service-policies", "dial", type="Dial", semantic="AnyOf",
            identityRoles=[f"#{self.prefix}-dialer"], serviceRoles=[f"#{self.prefix}-service"],
        )

    def bind_policy(self, host):
        role = f"#{self.prefix}-{host}-host"
        self.make(
            "service-policies", f"bind-{host}", type="Bind", semantic="AnyOf",
            identityRoles=[role], serviceRoles=[f"#{self.prefix}-by-{host}"],
        )

    def router_hosts(self, host):
        """Gives an online router's own identity the role of ``host``."""
        router = wait_until(
            "an edge router online", 120,
            lambda: next((r for r in self.api.list("/edge-routers") if r["isOnline"]), None),
        )
        path = f"/edge-routers/{router['id']}"
        if not router["isTunnelerEnabled"]:
            self.api.call("PATCH", path, {"isTunnelerEnabled": True})
            self.undo.append(("PATCH", path, {"isTunnelerEnabled": False}))
        identity = f"/identities/{router['id']}"
        roles = self.api.call("GET", identity)["roleAttributes"] or []
        wanted = [*roles, f"{self.prefix}-{host}-host"]
        self.api.call("PATCH", identity, {"roleAttributes": wanted})
        self.undo.append(("PATCH", identity, {"roleAttributes": roles}))

    def service(self, name, host, target=None):
        """A service that ``host`` may bind; ``target`` (host, port) is for a tunneler."""
        name_in_full = f"{self.prefix}-{name}"
        intercept = {
            "protocols": ["tcp"],
            "addresses": [intercepted(name_in_full)],
            "portRanges": [{"low": 80, "high": 80}],
        }
        configs = [self.config(f"{name}-intercept", "intercept.v1", intercept)]
        if target:
            where = {"protocol": "tcp", "address": target[0], "port": target[1]}
            configs.append(self.config(f"{name}-host", "host.v1", where))
        roles = [f"{self.prefix}-service", f"{self.prefix}-by-{host}"]
        identifier = self.make(
            "services", name, configs=configs, encryptionRequired=True, roleAttributes=roles
        )
        return name_in_full, identifier

    def config(self, name, kind, data):
        return self.make("configs", name, configTypeId=self.config_types[kind], data=data)

    def identity(self, name, role):
        """A new identity's enrollment token."""
        identifier = self.make(
            "identities", name, type="Default", isAdmin=False,
            enrollment={"ott": True}, roleAttributes=[f"{self.prefix}-{role}"],
        )
        return self.api.call("GET", f"/identities/{identifier}")["enrollment"]["ott"]["jwt"]

    def give(self, name, role):
        """Gives an identity a further attribute."""
        found = next(
            it for it in self.api.list("/identities") if it["name"] == f"{self.prefix}-{name}"
        )
        roles = [*(found["roleAttributes"] or []), f"{self.prefix}-{role}"]
        self.api.call("PATCH", f"/identities/{found['id']}", {"roleAttributes": roles})

    def only_named_routers(self):
        """Lets identities use only the routers that policies of their own name."""
        for policy in self.api.list("/edge-router-policies"):
            if "#all" in (policy["identityRoles"] or []):
                self.api.delete("edge-router-policies", policy["id"])
                self.made = [made for made in self.made if made[1] != policy["id"]]

    def hosted(self, service, seconds=120):
        """Waits until the service (given by id) has a host."""
        wait_until(
            "a terminator", seconds, lambda: self.api.list(f"/services/{service}/terminators")
        )

    def not_hosted(self, service, seconds=120):
        """Waits until the service has no host any more."""
        wait_until(
            "no terminator", seconds, lambda: not self.api.list(f"/services/{service}/terminators")
        )

    def remove(self):
        """Deletes everything that was created; prints what could not be deleted."""
        for method, path, body in reversed(self.undo):
            self._try(lambda: self.api.call(method, path, body))
        for kind, identifier in reversed(self.made):
            self._try(lambda: self.api.delete(kind, identifier))
        self.undo, self.made = [], []

    @staticmethod
    def _try(step):
        try:
            step()
        except (ApiError, OSError) as error:
            print(f"not cleaned up: {error}", file=sys.stderr)


def connect(home, stop_at_exit):
    """The API of the network that the environment names, or of a fresh one."""
    url = os.environ.get("WEFT_CTRL_URL")
    username = os.environ.get("WEFT_USERNAME", "admin")
    password = os.environ.get("WEFT_PASSWORD", "admin")
    if not url:
        url = quickstart(home, username, password, stop_at_exit)
    return Api(url, username, password, os.environ.get("WEFT_CA"))


def quickstart(home, username, password, stop_at_exit):
    """Starts a network in ``home`` and returns its controller's URL once it is ready.

    The controller's port is the one that the banner's first https URL names.
    """
    binary = os.environ.get("WEFT_BIN")
    if not binary:
        raise ApiError("set WEFT_CTRL_URL to a running network, or WEFT_BIN to a weft binary")
    log = home / "weft.log"
    command = [
        binary, "quickstart", "--home", str(home / "weft"),
        "--ctrl-address", "127.0.0.1", "--router-address", "127.0.0.1",
        "--ctrl-port", "0", "--router-port", "0",
        "--username", username, "--password", password,
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    stop_at_exit(process)

    def ready():
        if process.poll() is not None:
            raise ApiError(f"weft quickstart ended:\n{log.read_text(errors='replace')[-2000:]}")
        found = re.search(r"https://127\.0\.0\.1:[1-9]\d*", log.read_text(errors="replace"))
        if not found:
            return None
        try:
            api = Api(found.group(), username, password)
            online = any(router["isOnline"] for router in api.list("/edge-routers"))
        except (ApiError, OSError):
            return None
        return found.group() if online else None

    return wait_until("weft quickstart", 180, ready)
