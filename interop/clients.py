"""The clients under test: where each comes from, and how it enrolls, dials and hosts.

A client is a set of programs that take flags and print one line of JSON. Each
variant of a Go client is the same program with other flags.

``late_answer`` is the longest answer, in bytes, that a client can read after its
own half-close. The Go clients send as much by one call, which is one payload with
flow control at the SDK. ``answers_half_closed`` says whether as a host it can answer
a peer that has half-closed. The wheel's native SDK (0.29.3) closes a connection
as soon as both directions have ended, and drops queued data: a dialer loses the
data that did not fit its socket's buffer, a host the data that was not sent yet.

``crashes`` says that the client's SDK may crash by itself, whatever its peer does,
so that a check which ends by a signal, its own or that of the host it talks to, gets
a second try. In the wheel's native SDK ``schedule_on_loop`` reads the queue element
after handing it to the loop thread, which may have freed it: with 200 threads that
dial, about once in 400 storms.
"""

import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass

from fetching import Unavailable, environment, go_modules, last_line

HERE = pathlib.Path(__file__).parent


@dataclass(frozen=True)
class GoClient:
    """A program on the Go SDK (its command line: README.md)."""

    name: str
    binary: str
    flags: tuple = ()
    late_answer: int = 12 << 20
    answers_half_closed: bool = True
    crashes: bool = False

    def enroll(self, jwt, out):
        return [self.binary, "enroll", "--jwt", jwt, "--out", out]

    def fetch(self, identity, service, path, sha256, timeout):
        flags = ["--path", path, "--sha256", sha256]
        return self._on("fetch", identity, service, timeout, *flags)

    def storm(self, identity, service, n, half_close, timeout):
        flags = ["--n", str(n), f"--half-close={str(half_close).lower()}"]
        return self._on("storm", identity, service, timeout, *flags)

    def halfclose(self, identity, service, timeout):
        size = str(self.late_answer)
        return self._on("halfclose", identity, service, timeout, "--size", size)

    def host_echo(self, identity, service, timeout):
        return self._on("echo", identity, service, timeout)

    def host_tcp(self, identity, service, target, timeout):
        return self._on("host-http", identity, service, timeout, "--target", target)

    def _on(self, command, identity, service, timeout, *more):
        base = [self.binary, command, "--identity", identity, "--service", service]
        return [*base, "--timeout", f"{timeout}s", *more, *self.flags]


@dataclass(frozen=True)
class PythonClient:
    """The programs in ``python/``, run by the interpreter that has the wheel."""

    name: str
    interpreter: str
    late_answer: int = 64 << 10
    answers_half_closed: bool = False
    crashes: bool = True

    def enroll(self, jwt, out):
        return self._program("enroll", "--jwt", jwt, "--out", out)

    def fetch(self, identity, service, path, sha256, timeout):
        flags = ["--path", path, "--sha256", sha256, "--timeout", str(timeout)]
        return self._program("fetch", *self._to(identity, service), *flags)

    def storm(self, identity, service, n, half_close, timeout):
        flags = ["--n", str(n), "--timeout", str(timeout)]
        if not half_close:
            flags.append("--no-half-close")
        return self._program("storm", *self._to(identity, service), *flags)

    def halfclose(self, identity, service, timeout):
        size = str(self.late_answer)
        flags = ["--late", "--n", "1", "--size", size, "--timeout", str(timeout)]
        return self._program("storm", *self._to(identity, service), *flags)

    def host_echo(self, identity, service, timeout):
        flags = ["--service", service, "--timeout", str(timeout)]
        return self._program("host", "--identity", identity, *flags)

    def host_tcp(self, identity, service, target, timeout):
        return [*self.host_echo(identity, service, timeout), "--target", target]

    def _to(self, identity, service):
        return ["--identity", identity, "--address", f"{intercepted(service)}:80"]

    def _program(self, name, *flags):
        return [self.interpreter, str(HERE / "python" / f"{name}.py"), *flags]


def intercepted(service):
    """The host name under which a service is found by clients that dial addresses."""
    return f"{service}.interop"


def go_clients(variable, name, folder):
    """The Go client whose program the environment variable names, else the one that is
    built here, and its variants. Raises ``Unavailable`` if there is neither."""
    binary = os.environ.get(variable)
    if not binary:
        binary = build_go(name, pathlib.Path(folder))
    if not os.access(binary, os.X_OK):
        raise FileNotFoundError(f"{variable}={binary} is not a program")
    grouped = ("--channels", "2", "--control-channels", "1")
    return [
        GoClient(name, binary),
        GoClient(f"{name}-flow", binary, ("--sdk-flow-control",)),
        GoClient(f"{name}-grouped", binary, grouped),
    ]


def build_go(name, folder):
    """Builds a Go client from its module, in a copy so that nothing is written here."""
    source, binary = folder / f"{name}-source", folder / name
    shutil.copytree(HERE / name, source)
    command = ["go", "build", "-o", str(binary), "."]
    if (source / "go.sum").exists():
        go_modules(source)
    else:  # its dependencies are looked up and may be missing: one try is enough
        command.insert(2, "-mod=mod")
    try:
        built = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=1800)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"go build: {error}") from error
    if built.returncode:
        raise Unavailable(f"go build: {last_line(built)}")
    return str(binary)


def python_client(venv):
    """Installs the wheel into ``venv`` unless it is there already."""
    programs = environment(venv, HERE / "python" / "requirements.txt")
    return PythonClient("python", str(programs / "python"))
