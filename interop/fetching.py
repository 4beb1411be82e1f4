"""The packages that a run fetches: modules of Go programs and packages of Python environments.

A proxy or an index may fail for a moment, so everything is tried several times. What was
fetched once stays in the caches of ``go`` and ``pip``, and a later try goes on from there.
"""

import pathlib
import subprocess
import sys
import time

# Seconds between two tries.
PAUSES = (5, 10, 20, 40)
# Seconds that one try may take.
ONE_TRY = 600


class Unavailable(Exception):
    """A program or package cannot be fetched on this machine."""


def last_line(done):
    """The last line that a failed program printed."""
    said = (done.stderr or done.stdout or "").strip().splitlines()
    return said[-1].strip() if said else f"exit code {done.returncode}"


def fetch(what, command, **options):
    """Runs a command that fetches, again after a pause when it fails."""
    for pause in (*PAUSES, None):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=ONE_TRY, **options
            )
            if done.returncode == 0:
                return
            problem = last_line(done)
        except subprocess.TimeoutExpired:
            problem = f"not within {ONE_TRY} s"
        except OSError as error:  # there is no such program
            raise Unavailable(f"{what}: {error}") from error
        if pause is None:
            raise Unavailable(f"{what}: {problem}")
        print(f"{what}: {problem}; again in {pause} s", file=sys.stderr, flush=True)
        time.sleep(pause)


def go_modules(source):
    """Fetches what the program in ``source`` and its tests need, and nothing else."""
    command = ["go", "list", "-deps", "-test", "-f", "{{/**/}}", "."]
    fetch("go modules", command, cwd=source)


def environment(venv, requirements, constraints=None):
    """The folder of the programs of a Python environment that has the requirements, made
    unless it is there already."""
    venv = pathlib.Path(venv)
    files = [requirements, *filter(None, [constraints])]
    pins = "".join(file.read_text() for file in files)
    mark = venv / "installed.txt"
    if not (mark.exists() and mark.read_text() == pins):
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=ONE_TRY)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--retries", "10"]
        pip += ["--disable-pip-version-check", "-r", str(requirements)]
        pip += ["-c", str(constraints)] if constraints else []
        fetch(f"pip for {requirements.parent.name}", pip)
        mark.write_text(pins)
    return venv / "bin"
