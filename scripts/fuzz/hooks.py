"""What schemathesis cannot know: ids of things that are there, and what a stream is.

A made-up id is only ever answered by a 404, so most of them are replaced by that of a live sandbox or command just
before the request is sent. Deleted ones are created again, so that deletes are fuzzed as deeply as the rest.
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

# What is done to the sandbox of these is not done to the one the others use.
HARMFUL = re.compile("^(DELETE .*|POST .*:(stop|park))$")

# A text that is no id names no sandbox, and so there is nothing to delete: the answer is 200.
IDEMPOTENT = {"DELETE /v1/sandboxes/{id}", "POST /v1/sandboxes/{id}:stop"}

# Creates share so many sessions, because each makes a container.
SESSIONS = 4

MAX_PORTS = 4

numbers = itertools.count(1)
from_answers = set()


def connect_from_everywhere(address, *args, connect=urllib3.util.connection.create_connection, **options):
    """Each connection has its own address, because an address with too many wrong tokens has to wait."""
    high, low = divmod(next(numbers), 250)
    options["source_address"] = (f"127.2.{high % 250}.{low + 1}", 0)
    return connect(address, *args, **options)


urllib3.util.connection.create_connection = connect_from_everywhere


def ask(path, body):
    headers = {"x-remcochat-admin-token": TOKEN, "content-type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def live_sandbox(label):
    use = "harmful" if HARMFUL.match(label) else "all"
    return ask("/v1/sandboxes", {"sessionKey": f"fuzz:{use}"})["sandboxId"]


def live_terminal(sandbox):
    request = {"cmd": "sleep", "args": ["5"]}
    return ask(f"/v1/sandboxes/{sandbox}/terminals", request)["terminalId"]


def live_command(sandbox, is_ended):
    """One that ended long ago, or one that has just begun and ends soon: some requests wait for the end."""
    if is_ended:
        # No id that the fuzzer would choose: it belongs to this script alone.
        request = {"commandId": "cmd_endedLongAgo2f9Kq7Zw", "script": "echo out; echo err >&2; printf '\\377'; exit 3"}
    else:
        request = {"commandId": f"cmd_justBegun2f9Kq7Zw{next(numbers):012}", "script": "echo begun; sleep 0.5", "detached": True}
    path = f"/v1/sandboxes/{sandbox}/commands"
    try:
        return ask(path, request)["commandId"]
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
    # The fuzzer learned the id from an answer and gave it to a command of its own first.
    return ask(path, request | {"commandId": f"cmd_anotherOne2f9Kq7Zw{next(numbers):012}"})["commandId"]


def dice(text):
    """The same for the same text, so that a case can be repeated."""
    return zlib.crc32(text.encode("utf-8", "replace")) % 4


@schemathesis.hook
def before_call(context, case, kwargs):
    case.headers["connection"] = "close"
    leave_out_headers(case.headers)
    name_what_is_there(case.operation.label, case.path_parameters or {})
    if case.operation.label == "POST /v1/sandboxes" and isinstance(case.body, dict):
        key = case.body.get("sessionKey")
        if isinstance(key, str) and key.strip() and dice(key):
            case.body["sessionKey"] = f"fuzz:{len(key) % SESSIONS}"
        ports = case.body.get("ports")
        if isinstance(ports, list) and len(ports) > MAX_PORTS and len(set(map(str, ports))) <= MAX_PORTS:
            # As many distinct ones: JSON Schema counts those that are there twice, and the daemon does not.
            case.body["ports"] = [1 + n for n, _ in enumerate(ports)]
    if case.operation.label == BATCH and isinstance(case.body, dict):
        give_own_ids(case.body.get("commands"))
    case.body = with_whole_numbers(case.body)
    # Links lead on from what is answered at once.
    is_linked = case.meta is not None and case.meta.phase.name is TestPhase.STATEFUL
    if case.operation.label == START and not is_linked and dice(repr(case.body)) > 1:
        case.headers["accept"] = NDJSON
    accept_what_is_legal(case)


def leave_out_headers(headers):
    """A second token beside the right one, made up by the document's other scheme; and null, which no header can be."""
    for name, value in list(headers.items()):
        if name.lower() == "authorization" or value == "null":
            del headers[name]


def accept_what_is_legal(case):
    """Two kinds of requests are legal, and the fuzzer takes them for broken ones.

    Last of all: reading `case.meta` judges again each part that was changed, and this is about that judgment.
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


def give_own_ids(commands):
    """No schema can say that two commands of a batch may not have one id."""
    seen = set()
    for command in commands if isinstance(commands, list) else []:
        wanted = command.get("commandId") if isinstance(command, dict) else None
        if isinstance(wanted, str) and wanted in seen:
            del command["commandId"]
        seen.add(str(wanted))


def name_what_is_there(label, parameters):
    sandbox, command = str(parameters.get("id")), str(parameters.get("commandId"))
    terminal = str(parameters.get("terminalId"))
    if re.fullmatch("sbx_[A-Za-z0-9]{16,64}", sandbox) and sandbox not in from_answers and dice(sandbox):
        parameters["id"] = live_sandbox(label)
        if re.fullmatch("cmd_[A-Za-z0-9]{16,64}", command) and dice(command):
            parameters["commandId"] = live_command(parameters["id"], dice(command) == 1)
        if re.fullmatch("trm_[A-Za-z0-9]{16,64}", terminal) and dice(terminal):
            parameters["terminalId"] = live_terminal(parameters["id"])


def with_whole_numbers(body):
    """JSON Schema takes 1.0 for a whole number; the daemon does not, and no client writes one so."""
    if isinstance(body, dict):
        return {name: with_whole_numbers(value) for name, value in body.items()}
    if isinstance(body, list):
        return [with_whole_numbers(value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body


@schemathesis.hook
def after_call(context, case, response):
    """What an answer names is used as it is: the next requests are about just that."""
    if response.status_code == 200 and b'"sandboxId"' in (response.content or b""):
        from_answers.update(re.findall("sbx_[A-Za-z0-9]{16,64}", response.text))


@schemathesis.deserializer(NDJSON)
def last_record(context, response):
    """The whole is no JSON; the others are checked below. Of what ended before the first there is none."""
    lines = response.content.splitlines() or [b'{"stream":"heartbeat"}']
    return json.loads(lines[-1])


@schemathesis.check
def every_record_is_of_its_schema(context, response, case):
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
