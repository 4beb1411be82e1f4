"""How every program here ends: one line of JSON on standard output, exit code
0 only when everything was verified, and a deadline at which the process ends."""

import json
import os
import sys
import threading
import time


def run(command, timeout, work):
    """Runs ``work``, which returns the fields of the result, and ends the process.

    The native SDK keeps threads of its own, so the process is ended without
    waiting for them, and a watchdog ends it when the deadline passes inside a
    call into the SDK.
    """
    start = time.monotonic()

    def finish(ok, fields):
        line = {"ok": ok, "command": command, "seconds": round(time.monotonic() - start, 3)}
        print(json.dumps(line | fields), flush=True)
        sys.stderr.flush()
        os._exit(0 if ok else 1)

    watchdog = threading.Timer(
        timeout + 5, lambda: finish(False, {"error": f"did not finish within {timeout} s"})
    )
    watchdog.daemon = True
    watchdog.start()
    try:
        fields = work()
    except BaseException as error:  # also KeyboardInterrupt: the line must come
        finish(False, {"error": f"{type(error).__name__}: {error}"})
    ok = not fields.get("error")
    finish(ok, fields)
