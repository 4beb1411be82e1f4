"""Lets schemathesis ask for things that exist: the ids of the entities that ``run``
made take the place of every second made-up id, and those that it made for this purpose
are deleted. What the run's own session needs is not touched."""

import atexit
import collections
import json
import os
import pathlib
import zlib

import schemathesis

MADE = json.loads(os.environ["WEFT_MADE"])
DOOMED = json.loads(os.environ["WEFT_DOOMED"])
OWN = set(json.loads(os.environ["WEFT_OWN"]))


# Members of bodies have rules that their schema does not state.
BODIES = {
    "authPolicyId": "default",
    "binding": "transport",
    "configId": MADE["configs"],
    "configs": [],
    "configTypeId": MADE["config-types"],
    "edgeRouterRoles": ["#all"],
    "enrollment": {"ott": True},
    "expiresAt": "2038-01-01T00:00:00Z",
    "externalId": None,
    "identityId": MADE["identities"],
    "identityRoles": ["#all"],
    "permissions": ["ops.read"],
    "postureCheckRoles": [],
    "roleAttributes": ["web"],
    "router": MADE["edge-routers"],
    "schema": {"type": "object"},
    "service": MADE["services"],
    "serviceHostingCosts": {},
    "serviceHostingPrecedences": {},
    "serviceId": MADE["services"],
    "serviceRoles": ["#all"],
    "tags": {"a": 1},
    "terminatorStrategy": "random",
}


def is_chosen(context, value):
    """Every second value, and the same ones in every run."""
    text = f"{context.operation.label}{value!r}"
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % 2


def instead(context, name, value):
    """An id of the kind that the path names, or the value itself."""
    operation = context.operation
    kind = "services" if name == "serviceId" else operation.path.strip("/").split("/")[0]
    known = (DOOMED if operation.method.upper() == "DELETE" else MADE).get(kind)
    return known if known and is_chosen(context, value) else value


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if not path_parameters:
        return path_parameters
    return {name: instead(context, name, value) for name, value in path_parameters.items()}


def sensible(value):
    """The same object, with values that exist in this network."""
    if not isinstance(value, dict):
        return value
    return {name: BODIES.get(name, member) for name, member in value.items()}


@schemathesis.hook
def map_body(context, body):
    if not is_chosen(context, body):
        return body
    return [sensible(item) for item in body] if isinstance(body, list) else sensible(body)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Ids also come from earlier answers."""
    if case.method.upper() == "GET" or not case.path_parameters:
        return
    kept = OWN | (set(MADE.values()) if case.method.upper() == "DELETE" else set())
    for name, value in case.path_parameters.items():
        if value in kept:
            case.path_parameters[name] = "nothing"


SEEN = collections.Counter()


@schemathesis.hook
def after_call(context, case, response):
    SEEN[case.operation.definition.raw["operationId"], response.status_code] += 1


@atexit.register
def tell():
    """Writes a file for ``run``: how often each operation answered with each status."""
    rows = [[*key, count] for key, count in sorted(SEEN.items())]
    pathlib.Path(os.environ["WEFT_SEEN"]).write_text(json.dumps(rows))
