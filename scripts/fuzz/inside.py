"""Runs in a sandbox and describes what the fuzzer's requests name there: paths, and a program with its directory.

The request is JSON on standard input, the result JSON on standard output. Paths are in base64, because they are
bytes. The result also has the start of the container.
"""

import base64
import json
import os
import pathlib
import signal
import stat
import sys
import time

# The file systems of sandboxes have this limit.
NAME_MAX = 255


def describe(path):
    """Returns what a path names.

    The kind is `file`, `directory`, `other`, `missing`, `outside` of the workspace, or `unusable` for the file system.
    """
    root = os.fsencode(os.getcwd())
    if path.startswith(b"/"):
        if path != root and not path.startswith(root + b"/"):
            return {"kind": "outside"}
        path = path[len(root) :]
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    ends_as_directory = path.endswith((b"/", b"/.", b"/..")) or path in (b".", b"..")
    found = {"kind": "directory", "isWorkspace": not parts, "endsAsDirectory": ends_as_directory}
    here = []
    for at, part in enumerate(parts):
        if found["kind"] != "directory":
            return found | {"kind": "missing", "isBeneathFile": True}
        if part == b"..":
            if not here:
                return found | {"kind": "outside"}
            here.pop()
            continue
        here.append(part)
        try:
            mode = os.lstat(b"/".join([root, *here])).st_mode
        except FileNotFoundError:
            rest = parts[at + 1 :]
            is_creatable = b".." not in rest and all(len(name) <= NAME_MAX for name in rest)
            return found | {"kind": "missing", "isCreatable": is_creatable}
        except OSError as error:
            return found | {"kind": "unusable", "errno": error.errno}
        found["kind"] = "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
    return found | content_of(b"/".join([root, *here]), found["kind"])


def content_of(path, kind):
    """Returns whether all of it may be read, and the bytes of a file."""
    if kind == "directory":
        below = [os.path.join(parent, name) for parent, names, files in os.walk(path) for name in [*names, *files]]
        are_readable = all(os.path.islink(one) or os.access(one, os.R_OK) for one in [path, *below])
        return {"isReadable": are_readable, "isEmpty": not below}
    if kind != "file" or not os.access(path, os.R_OK):
        return {"isReadable": False}
    with open(path, "rb") as file:
        return {"isReadable": True, "content": base64.b64encode(file.read()).decode()}


def failed_step(start):
    """Starts a program as a command would, ends it at once, and returns the step that failed, if any."""
    try:
        os.chdir(start["cwd"] or ".")
    except OSError:
        return "cwd"
    ready, report = os.pipe()
    child = os.fork()
    if child == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        try:
            os.execvpe(start["cmd"], [start["cmd"], *start["args"]], os.environ | start["env"])
        except (OSError, ValueError):
            os.write(report, b"x")
        os._exit(127)
    os.close(report)
    is_failed = os.read(ready, 1) == b"x"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "exec" if is_failed else None


def container_start():
    """Returns when the first process of the container started, in seconds since 1970."""
    ticks = int(pathlib.Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


request = json.load(sys.stdin)
described = [describe(base64.b64decode(path)) for path in request["paths"]]
step = failed_step(request["start"]) if request["start"] else None
json.dump({"paths": described, "failedStep": step, "containerStart": container_start()}, sys.stdout)
