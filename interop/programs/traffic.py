"""Loads of the original's traffic generator (`ziti-traffic-test loop4`) between two routers.

An identity at one router hosts a service for each load, an identity at another one dials. Blocks carry
their SHA-512 and their number, both sides send and compare, and the dialer's exit code is 0 only if
every block came. The connections are open at once.
"""

import json
import subprocess

from api import Api, wait_until

# How long one run may take, in seconds.
PATIENCE = 120


def side(blocks=0, smallest=0, largest=0, **more):
    """What one side sends: a number of blocks, and their sizes in bytes."""
    sizes = {"payloadMinBytes": smallest, "payloadMaxBytes": largest or smallest}
    return {"txRequests": blocks, "rxTimeout": "60s", **sizes, **more}


def loads(tag, pace):
    """The loads by service; `pace` is the time between two blocks, for instance 20ms."""
    slow = {"rxPacing": "5ms", "rxPauseEvery": "1s", "rxPauseFor": "500ms"}
    both = lambda *sizes, **more: [side(*sizes, **more), side(*sizes, **more)]
    all_of = [
        ("small", 20, 1, both(200, 1, 200, latencyFrequency=10, txPacing=pace)),
        ("middle", 10, 1, both(60, 1000, 64_000, latencyFrequency=10, txPacing=pace)),
        ("large", 2, 1, both(5, 1_000_000, 3_000_000)),
        ("slow", 2, 1, [side(100, 20_000, 60_000), side(20, 100, **slow)]),
        ("many", 8, 20, both(3, 10, 5_000, txPacing=pace)),
    ]
    return [
        {
            "name": name, "connector": "default", "service_name": f"{tag}-{name}",
            "connect_timeout": "15s", "concurrency": connections, "iterations": times,
            "dialer": dialer, "listener": listener,
        }
        for name, connections, times, (dialer, listener) in all_of
    ]  # fmt: skip


def scenario(run, name, identity, workloads, flow):
    """A file for the generator. `flow` says whether the SDK has flow control of its own."""
    sdk = {"identity_file": identity, "enable_sdk_xgress": flow, "max_control_underlays": 1}
    file = run.home / f"{name}.yml"
    # JSON is YAML.
    file.write_text(json.dumps({"connectors": {"default": {"sdk": sdk}}, "workloads": workloads}))
    return str(file)


def cut_links(run, process, log, connections, user, password):
    """Deletes all links once all connections were opened, and again until the process has ended; routers
    dial them anew."""
    fabric = Api(run.url, user, password, base="/fabric/v1")
    opened = lambda: log.read_text(errors="replace").count('"new connection established"')
    wait_until("all connections", 30, lambda: connections <= opened())
    while True:
        for link in fabric.list("/links"):
            if link["state"] == "Connected":
                fabric.delete("links", link["id"])
        try:
            process.wait(1.5)
            return
        except subprocess.TimeoutExpired:
            pass


def dial(run, generator, name, file, meanwhile):
    """Runs all loads of a file; fails if a block or a connection failed."""
    with run.running(name, "loop4", "dialer", file, program=generator) as process:
        meanwhile(process)
        code = process.wait(PATIENCE)
    told = (run.home / f"{name}.log").read_text(errors="replace").splitlines()
    problems = [line for line in told if "-> error" in line or "failed to dial" in line]
    assert code == 0 and not problems, f"exit code {code}: {' '.join(problems)[:300]}"
    assert any("scenario completed with 0 errors" in line for line in told), "it did not complete"


def carry(run, generator, tag, identities, account):
    """All loads, without and with flow control of the SDKs, and while links break. `identities` are the
    files of dialer and host; the host bears the role that the services are bound by."""
    dialer, host = identities
    services = [run.network.service(f"{tag}-{load['name']}", tag) for load in loads(tag, "1ms")]
    for flow, breaks in [(False, False), (True, False), (True, True)]:
        what = "with flow control of the SDKs" if flow else "without flow control of the SDKs"
        name = f"{tag}-{'cut' if breaks else 'flow' if flow else 'plain'}"
        pace = "20ms" if breaks else "1ms"
        full = loads(f"{run.network.prefix}-{tag}", pace)
        if breaks:
            # A dial fails at once while there is no path; connections that are open wait for one.
            full = [load for load in full if load["iterations"] == 1]
        hosts = scenario(run, f"{name}-host", host, full, flow)
        dials = scenario(run, f"{name}-dial", dialer, full, flow)
        with run.running(f"{name}-host", "loop4", "listener", hosts, program=generator):
            hosted = [load["service_name"] for load in full]
            for name_in_full, service in services:
                if name_in_full in hosted:
                    run.network.hosted(service)
            open_at_once = sum(load["concurrency"] for load in full)
            log = run.home / f"{name}-dialer.log"
            cut = lambda process: cut_links(run, process, log, open_at_once, *account)
            meanwhile = cut if breaks else lambda _: None
            label = "  while links break" if breaks else f"  {what}"
            run.check(label, lambda: dial(run, generator, f"{name}-dialer", dials, meanwhile))
        for _, service in services:
            run.network.not_hosted(service)
