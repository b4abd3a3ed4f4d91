"""Hooks for schemathesis: ids of existing objects, and the format of streams.

A random id only ever gets a 404. Just before a request is sent, most ids are therefore replaced with the id of an
existing sandbox, command or terminal. Deleted sandboxes are recreated, so that deletes are fuzzed as deeply as the rest.
"""

import itertools
import json
import os
import re
import urllib.error
import urllib.request
import zlib

import schemathesis
import urllib3.util.connection
from jsonschema import Draft202012Validator
from schemathesis.core import NotSet
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import TestPhase

URL = os.environ["SANDBOXD_URL"]
TOKEN = os.environ["SANDBOXD_ADMIN_TOKEN"]
NDJSON = "application/x-ndjson"
START = "POST /v1/sandboxes/{id}/commands"
BATCH = f"{START}:batch"

# These operations have a sandbox of their own, because they disturb the other operations.
DISRUPTIVE = re.compile("^(DELETE .*|POST .*:(stop|park))$")

# A malformed id names no sandbox. There is nothing to delete, so the response is 200.
IDEMPOTENT = {"DELETE /v1/sandboxes/{id}", "POST /v1/sandboxes/{id}:stop"}

# Number of sessions that all creates share, because each session has a container.
SESSIONS = 4

MAX_PORTS = 4

numbers = itertools.count(1)
from_responses = set()


def connect_from_own_address(address, *args, connect=urllib3.util.connection.create_connection, **options):
    """Gives each connection its own source address, because the daemon throttles an address with many wrong tokens."""
    high, low = divmod(next(numbers), 250)
    options["source_address"] = (f"127.2.{high % 250}.{low + 1}", 0)
    return connect(address, *args, **options)


urllib3.util.connection.create_connection = connect_from_own_address


def post(path, body):
    headers = {"x-remcochat-admin-token": TOKEN, "content-type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def live_sandbox(label):
    use = "disruptive" if DISRUPTIVE.match(label) else "all"
    return post("/v1/sandboxes", {"sessionKey": f"fuzz:{use}"})["sandboxId"]


def live_terminal(sandbox):
    request = {"cmd": "sleep", "args": ["5"]}
    return post(f"/v1/sandboxes/{sandbox}/terminals", request)["terminalId"]


def live_command(sandbox, is_ended):
    """Returns an ended command, or one that ends soon, because some requests wait for the end."""
    if is_ended:
        # The fuzzer does not generate this id.
        request = {"commandId": "cmd_endedLongAgo2f9Kq7Zw", "script": "echo out; echo err >&2; printf '\\377'; exit 3"}
    else:
        request = {"commandId": f"cmd_justBegun2f9Kq7Zw{next(numbers):012}", "script": "echo begun; sleep 0.5", "detached": True}
    path = f"/v1/sandboxes/{sandbox}/commands"
    try:
        return post(path, request)["commandId"]
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
    # The fuzzer found the id in a response and used it for another command.
    return post(path, request | {"commandId": f"cmd_anotherOne2f9Kq7Zw{next(numbers):012}"})["commandId"]


def dice(text):
    """Returns 0 to 3, the same for the same text, so that a case can be repeated."""
    return zlib.crc32(text.encode("utf-8", "replace")) % 4


@schemathesis.hook
def before_call(context, case, kwargs):
    case.headers["connection"] = "close"
    drop_headers(case.headers)
    use_existing_ids(case.operation.label, case.path_parameters or {})
    if case.operation.label == "POST /v1/sandboxes" and isinstance(case.body, dict):
        key = case.body.get("sessionKey")
        if isinstance(key, str) and key.strip() and dice(key):
            case.body["sessionKey"] = f"fuzz:{len(key) % SESSIONS}"
        ports = case.body.get("ports")
        if isinstance(ports, list) and len(ports) > MAX_PORTS and len(set(map(str, ports))) <= MAX_PORTS:
            # JSON Schema counts repeated ports, and the daemon does not. This keeps the number and makes the ports distinct.
            case.body["ports"] = [1 + n for n, _ in enumerate(ports)]
    if case.operation.label == BATCH and isinstance(case.body, dict):
        drop_repeated_ids(case.body.get("commands"))
    case.body = with_whole_numbers(case.body)
    # Links need a JSON response. A stream has none.
    is_linked = case.meta is not None and case.meta.phase.name is TestPhase.STATEFUL
    if case.operation.label == START and not is_linked and dice(repr(case.body)) > 1:
        case.headers["accept"] = NDJSON
    accept_what_is_legal(case)


def drop_headers(headers):
    """Removes a random token of the document's second scheme, and null, which no header can have as its value."""
    for name, value in list(headers.items()):
        if name.lower() == "authorization" or value == "null":
            del headers[name]


def accept_what_is_legal(case):
    """Marks two kinds of requests as valid that the fuzzer generates as invalid.

    This must be the last step. Reading `case.meta` checks each changed part again, which would undo the mark.
    """
    parts = case.meta.components if case.meta is not None else {}
    body = case.operation.definition.raw.get("requestBody")
    if body is not None and not body.get("required") and isinstance(case.body, NotSet):
        accept_part(parts, ParameterLocation.BODY)
    if case.operation.label in IDEMPOTENT:
        accept_part(parts, ParameterLocation.PATH)
    if parts and not any(part.mode.is_negative for part in parts.values()):
        case.meta.generation.mode = GenerationMode.POSITIVE


def accept_part(parts, location):
    if location in parts:
        parts[location].mode = GenerationMode.POSITIVE


def drop_repeated_ids(commands):
    """Removes repeated command ids from a batch. No schema can forbid them."""
    seen = set()
    for command in commands if isinstance(commands, list) else []:
        wanted = command.get("commandId") if isinstance(command, dict) else None
        if isinstance(wanted, str) and wanted in seen:
            del command["commandId"]
        seen.add(str(wanted))


def use_existing_ids(label, parameters):
    sandbox, command = str(parameters.get("id")), str(parameters.get("commandId"))
    terminal = str(parameters.get("terminalId"))
    if re.fullmatch("sbx_[A-Za-z0-9]{16,64}", sandbox) and sandbox not in from_responses and dice(sandbox):
        parameters["id"] = live_sandbox(label)
        if re.fullmatch("cmd_[A-Za-z0-9]{16,64}", command) and dice(command):
            parameters["commandId"] = live_command(parameters["id"], dice(command) == 1)
        if re.fullmatch("trm_[A-Za-z0-9]{16,64}", terminal) and dice(terminal):
            parameters["terminalId"] = live_terminal(parameters["id"])


def with_whole_numbers(body):
    """Replaces 1.0 with 1. JSON Schema accepts both as integers. The daemon accepts only the form that clients send."""
    if isinstance(body, dict):
        return {name: with_whole_numbers(value) for name, value in body.items()}
    if isinstance(body, list):
        return [with_whole_numbers(value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body


@schemathesis.hook
def after_call(context, case, response):
    """Remembers the sandboxes of responses, so that their ids are not replaced."""
    if response.status_code == 200 and b'"sandboxId"' in (response.content or b""):
        from_responses.update(re.findall("sbx_[A-Za-z0-9]{16,64}", response.text))


@schemathesis.deserializer(NDJSON)
def last_record(context, response):
    """Returns the last record of a stream. The check below covers the others. A stream may end before its first record."""
    lines = response.content.splitlines() or [b'{"stream":"heartbeat"}']
    return json.loads(lines[-1])


@schemathesis.check
def every_record_matches_its_schema(context, response, case):
    if not (response.headers.get("content-type") or [""])[0].startswith(NDJSON):
        return
    document = case.operation.schema.raw_schema
    schema = {"$ref": "#/components/schemas/Record", "components": document["components"]}
    records = [json.loads(line) for line in response.content.splitlines()]
    for record in records:
        Draft202012Validator(schema).validate(record)
    follows = "follow=false" not in response.request.url
    ends = bool(records) and records[-1]["stream"] == "exit"
    assert ends or not follows, f"the stream of {response.request.url} has no end record"
