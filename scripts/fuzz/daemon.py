"""Requests to the daemon beside the fuzzer's own, and what the responses so far say about its objects."""

import base64
import itertools
import json
import os
import pathlib
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ["SANDBOXD_URL"]
TOKEN = os.environ["SANDBOXD_ADMIN_TOKEN"]
INSIDE = pathlib.Path(__file__).with_name("inside.py").read_text()

numbers = itertools.count(1)

# Sandboxes that a response named as created and that no later response deleted.
sandboxes = set()
# Sandboxes that the fuzzer itself created. Their ids are not replaced.
from_responses = set()
# The request that started each command, by sandbox and command.
started = {}
# Distinguishes a command that was run to its end, because it is another request than the start of the same command.
RUN_TO_END = {"runCommand": True}
# Commands whose standard input a request closed.
closed = set()

# Snapshots that the fuzzer has made itself.
snapshots = []


def call(method, path, body=None):
    headers = {"x-remcochat-admin-token": TOKEN, "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def get(path):
    return call("GET", path)


def post(path, body):
    return call("POST", path, body)


def create_sandbox(session, **options):
    sandbox = post("/v1/sandboxes", {"sessionKey": session, **options})["sandboxId"]
    sandboxes.add(sandbox)
    return sandbox


def delete_sandbox(sandbox):
    call("DELETE", f"/v1/sandboxes/{sandbox}")
    sandboxes.discard(sandbox)


def start_command(sandbox, request):
    command = post(f"/v1/sandboxes/{sandbox}/commands", request)["commandId"]
    started.setdefault((sandbox, command), request)
    return command


def live_terminal(sandbox):
    """Starts a program on a terminal, or returns one that runs if there are too many."""
    request = {"cmd": "sleep", "args": ["5"]}
    try:
        return post(f"/v1/sandboxes/{sandbox}/terminals", request)["terminalId"]
    except urllib.error.HTTPError as error:
        if error.code != 429:
            raise
    terminals = get(f"/v1/sandboxes/{sandbox}/terminals")["terminals"]
    return next(one["terminalId"] for one in terminals if one["state"] == "running")


def live_context(sandbox):
    """Opens a context, or returns one if there are too many."""
    try:
        return post(f"/v1/sandboxes/{sandbox}/contexts", {"language": "bash"})["contextId"]
    except urllib.error.HTTPError as error:
        if error.code != 429:
            raise
    return get(f"/v1/sandboxes/{sandbox}/contexts")["contexts"][0]["contextId"]


def live_mcp_server(sandbox):
    """Registers a server that no request starts. Another one may have the name already."""
    try:
        post(f"/v1/sandboxes/{sandbox}/mcp", {"name": "fuzz", "cmd": "true"})
    except urllib.error.HTTPError as error:
        if error.code not in (409, 429):
            raise
    return "fuzz"


def live_snapshot():
    """Makes a snapshot, or returns the last one if it still exists."""
    for snapshot in snapshots:
        if has_snapshot(snapshot):
            return snapshot
    snapshots.clear()
    snapshots.append(post(f"/v1/sandboxes/{create_sandbox('fuzz:snapshots')}/snapshots", {})["snapshotId"])
    return snapshots[0]


def has_snapshot(snapshot):
    try:
        get(f"/v1/snapshots/{urllib.parse.quote(str(snapshot), safe='', errors='surrogateescape')}")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


def live_command(sandbox, kind):
    """Returns an ended command, one that reads its standard input, or one that ends soon.

    All end by themselves, because some requests wait for the end.
    """
    if kind == "ended":
        # The fuzzer does not generate this id.
        request = {"commandId": "cmd_endedLongAgo2f9Kq7Zw", "script": "echo out; echo err >&2; printf '\\377'; exit 3"}
    else:
        reading = {"script": "timeout 2 cat", "openStdin": True}
        program = reading if kind == "reading" else {"script": "echo begun; sleep 0.5"}
        request = {"commandId": f"cmd_justBegun2f9Kq7Zw{next(numbers):012}", "detached": True, **program}
    try:
        return start_command(sandbox, request)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
    # The fuzzer found the id in a response and used it for another command.
    return start_command(sandbox, request | {"commandId": f"cmd_anotherOne2f9Kq7Zw{next(numbers):012}"})


def look_inside(sandbox, paths=(), start=None):
    """Describes paths, and the start of a program, by a program in the sandbox instead of the routes under test."""
    request = {"paths": [base64.b64encode(os.fsencode(path)).decode() for path in paths], "start": start}
    program = {"cmd": "/usr/bin/python3", "args": ["-IS", "-c", INSIDE], "stdin": json.dumps(request)}
    [result] = post(f"/v1/sandboxes/{sandbox}/commands:batch", {"commands": [program]})["results"]
    assert result.get("exitCode") == 0, f"the program in the sandbox failed: {result}"
    return json.loads(result["stdout"])


def remember(exchange):
    """Takes note of what a response says about objects."""
    sandbox = exchange.path.get("id")
    if exchange.operation == "createSandbox" and exchange.status == 200:
        sandboxes.add(exchange.answer["sandboxId"])
        from_responses.add(exchange.answer["sandboxId"])
    elif exchange.operation == "forkSandbox" and exchange.status == 200:
        # The next forks have the same sessions.
        for fork in exchange.answer["sandboxes"]:
            call("DELETE", f"/v1/sandboxes/{fork['sandboxId']}")
    elif exchange.operation in ("deleteSandbox", "stopSandbox") and exchange.status == 200:
        sandboxes.discard(sandbox)
    elif exchange.operation == "changeProject" and exchange.status == 200:
        # Otherwise the quotas would refuse what the next requests do.
        call("PUT", f"/v1/projects/{exchange.path['project']}", {"quotas": {}})
    elif exchange.operation == "startCommand" and exchange.status == 200:
        started.setdefault((sandbox, exchange.answer["commandId"]), exchange.body)
    elif exchange.operation == "runCommand" and exchange.status == 200:
        started.setdefault((sandbox, exchange.answer["commandId"]), exchange.body | RUN_TO_END)
    elif exchange.operation == "runBatch" and exchange.status == 200:
        for request, result in zip(exchange.body["commands"], exchange.answer["results"], strict=False):
            if "code" not in result:
                started.setdefault((sandbox, result["commandId"]), request)
    elif exchange.operation == "writeStdin" and exchange.query.get("close") == "true":
        closed.add((sandbox, exchange.path["commandId"]))
