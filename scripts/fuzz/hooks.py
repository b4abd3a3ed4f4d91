"""Hooks for schemathesis: ids of existing objects, streams that end, and the checks of responses.

A random id only ever gets a 404. Just before a request is sent, most ids are therefore replaced with the id of an
existing sandbox, command or terminal. Deleted sandboxes are recreated, so that deletes are fuzzed as deeply as the rest.
"""

import base64
import hashlib
import json
import re
import socket
import threading
import time
import urllib.error
import zlib

import daemon
import exchange
import legal
import legal_files  # noqa: F401 -- registers conditions
import legal_objects  # noqa: F401 -- registers conditions
import schemathesis
import urllib3.util.connection
from jsonschema import Draft202012Validator
from schemathesis.core import NotSet
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import REQUEST_SHAPE_PROBES, TestPhase

NDJSON = "application/x-ndjson"
START = "POST /v1/sandboxes/{id}/commands"
BATCH = f"{START}:batch"
RUN = f"{START}:run"
RUN_CODE = "POST /v1/sandboxes/{id}/contexts/{contextId}:run"
WATCH = "GET /v1/sandboxes/{id}/files:watch"
DENIALS = "GET /v1/sandboxes/{id}/network/denials"
FORK = "POST /v1/sandboxes/{id}:fork"
RESTORE = "POST /v1/sandboxes/{id}:restore"
ATTACH = "GET /v1/sandboxes/{id}/terminals/{terminalId}/attach"

# These operations have a sandbox of their own, because they disturb the other operations.
DISRUPTIVE = re.compile("^(DELETE .*|POST .*:(stop|park|restore)|GET .*(:watch|/denials))$")

# A malformed id names no sandbox. There is nothing to delete, so the response is 200.
IDEMPOTENT = {"DELETE /v1/sandboxes/{id}", "POST /v1/sandboxes/{id}:stop"}

# Number of sessions that all creates share, because each session has a container.
SESSIONS = 4

MAX_PORTS = 4

# A command that is run to its end may wait for input that never comes.
RUN_MILLISECONDS = 500

# A watch ends when its sandbox is parked, and a stream of denials when it is deleted. The stream may begin after the first
# attempt, so there are several.
END_SECONDS = 0.3
MAX_ENDS = 40

# The key of a WebSocket's handshake, and the text that RFC 6455 appends to it.
WEBSOCKET_KEY = base64.b64encode(b"sixteen bytes ok").decode()
WEBSOCKET_TEXT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Sent:
    """The request that is under way. There is never more than one."""

    at = 0.0
    connection = None
    is_answered = threading.Event()
    ender = None


def connect_from_own_address(address, *args, connect=urllib3.util.connection.create_connection, **options):
    """Gives each connection its own source address, because the daemon throttles an address with many wrong tokens."""
    high, low = divmod(next(daemon.numbers), 250)
    options["source_address"] = (f"127.2.{high % 250}.{low + 1}", 0)
    Sent.connection = connect(address, *args, **options)
    return Sent.connection


urllib3.util.connection.create_connection = connect_from_own_address


def live_sandbox(label):
    use = "disruptive" if DISRUPTIVE.match(label) else "all"
    return daemon.create_sandbox(f"fuzz:{use}", ports=[3000])


def dice(text):
    """Returns 0 to 3, the same for the same text, so that a case can be repeated."""
    return zlib.crc32(text.encode("utf-8", "replace")) % 4


@schemathesis.hook
def before_call(context, case, kwargs):
    stop_ender()
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
    if case.operation.label == FORK and isinstance(case.body, dict):
        keep_few_forks(case.body)
    if case.operation.label == RESTORE and isinstance(case.body, dict):
        case.body["snapshotId"] = existing_snapshot(case.body.get("snapshotId"))
    if case.operation.label == BATCH and isinstance(case.body, dict):
        drop_repeated_ids(case.body.get("commands"))
    if case.operation.label in (RUN, RUN_CODE) and isinstance(case.body, dict):
        limit = case.body.get("timeoutMs")
        if limit is None or (isinstance(limit, (int, float)) and limit >= 0):
            case.body["timeoutMs"] = RUN_MILLISECONDS
    case.body = with_whole_numbers(case.body)
    # Links need a JSON response. A stream has none.
    is_linked = case.meta is not None and case.meta.phase.name is TestPhase.STATEFUL
    if case.operation.label == START and not is_linked and dice(repr(case.body)) > 1:
        case.headers["accept"] = NDJSON
    if case.operation.label == ATTACH and dice(repr(case.path_parameters)) > 1:
        case.headers.update({"connection": "Upgrade", "upgrade": "websocket"})
        case.headers.update({"sec-websocket-version": "13", "sec-websocket-key": WEBSOCKET_KEY})
    if case.operation.label == WATCH:
        end_stream(change_and_park, case.path_parameters["id"])
    if case.operation.label == DENIALS and case.query.get("follow") not in (None, False, "false"):
        end_stream(daemon.delete_sandbox, case.path_parameters["id"])
    accept_what_is_legal(case)
    Sent.at = time.time()


def end_stream(act, sandbox):
    """Acts on the sandbox until the stream that is about to begin has ended."""
    Sent.is_answered.clear()
    Sent.ender = threading.Thread(target=until_answered, args=(act, sandbox), daemon=True)
    Sent.ender.start()


def stop_ender():
    """Waits for the last act, which would disturb the next request. A request that failed has no response."""
    Sent.is_answered.set()
    if Sent.ender is not None:
        Sent.ender.join()
        Sent.ender = None


def until_answered(act, sandbox):
    for _ in range(MAX_ENDS):
        if Sent.is_answered.wait(END_SECONDS):
            return
        try:
            act(sandbox)
        except (urllib.error.HTTPError, ValueError):
            # The id is not one of a sandbox. The stream then gets an error at once.
            continue


def change_and_park(sandbox):
    """Changes files, which a watch reports, and then parks the sandbox."""
    changes = {"script": "echo a >watched; chmod 600 watched; mv watched moved; mkdir -p d; touch d/e; rm -r moved d"}
    daemon.post(f"/v1/sandboxes/{sandbox}/commands:batch", {"commands": [changes]})
    daemon.post(f"/v1/sandboxes/{sandbox}:park", {"force": True})


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


def keep_few_forks(body):
    """Each fork has a container, so there are at most two."""
    keys = body.get("sessionKeys")
    if isinstance(keys, list) and all(isinstance(key, str) and key.strip() for key in keys):
        body["sessionKeys"] = [f"fuzz:fork{n}" for n, _ in enumerate(keys[:2])]


def existing_snapshot(snapshot):
    """Returns an id of a snapshot that exists in most cases."""
    is_valid = isinstance(snapshot, str) and re.fullmatch("snap_[A-Za-z0-9]{16,64}", snapshot)
    return daemon.live_snapshot() if is_valid and dice(snapshot) else snapshot


def drop_repeated_ids(commands):
    """Removes repeated command ids from a batch. No schema can forbid them."""
    seen = set()
    for command in commands if isinstance(commands, list) else []:
        wanted = command.get("commandId") if isinstance(command, dict) else None
        if isinstance(wanted, str) and wanted in seen:
            del command["commandId"]
        seen.add(str(wanted))


def use_existing_ids(label, parameters):
    if "snapshotId" in parameters:
        parameters["snapshotId"] = existing_snapshot(parameters["snapshotId"])
    sandbox, command = str(parameters.get("id")), str(parameters.get("commandId"))
    terminal, context = str(parameters.get("terminalId")), str(parameters.get("contextId"))
    if re.fullmatch("sbx_[A-Za-z0-9]{16,64}", sandbox) and sandbox not in daemon.from_responses and dice(sandbox):
        parameters["id"] = live_sandbox(label)
        if re.fullmatch("cmd_[A-Za-z0-9]{16,64}", command) and dice(command):
            kind = ["ended", "reading", "ends soon"][dice(command) - 1]
            parameters["commandId"] = daemon.live_command(parameters["id"], kind)
        if re.fullmatch("trm_[A-Za-z0-9]{16,64}", terminal) and dice(terminal):
            parameters["terminalId"] = daemon.live_terminal(parameters["id"])
        if re.fullmatch("ctx_[A-Za-z0-9]{16,64}", context) and dice(context):
            parameters["contextId"] = daemon.live_context(parameters["id"])
        if dice(str(parameters.get("name"))) and "/mcp/{name}" in label:
            parameters["name"] = daemon.live_mcp_server(parameters["id"])


def with_whole_numbers(body):
    """Replaces 1.0 with 1. JSON Schema accepts both as integers. The daemon accepts only the form that clients send."""
    if isinstance(body, dict):
        return {name: with_whole_numbers(value) for name, value in body.items()}
    if isinstance(body, list):
        return [with_whole_numbers(value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body


@schemathesis.hook
def after_call(context, case, response):
    stop_ender()
    if response.status_code == 101:
        # The connection is a WebSocket now and takes no further request.
        Sent.connection.shutdown(socket.SHUT_RDWR)
    daemon.remember(exchange.exchange_of(case, response, Sent.at))


@schemathesis.deserializer(NDJSON)
def last_record(context, response):
    """Returns the last record of a stream. The check below covers the others. A stream may end before its first record."""
    lines = response.content.splitlines() or [b'{"stream":"heartbeat"}']
    return json.loads(lines[-1])


@schemathesis.check
def every_error_is_legal(context, response, case):
    """Replaces `positive_data_acceptance` and `not_a_server_error`, which cannot look at the request."""
    if case.meta is None or getattr(case.meta.phase.data, "scenario", None) in REQUEST_SHAPE_PROBES:
        return
    sent = exchange.exchange_of(case, response, Sent.at)
    if case.meta.generation.mode.is_positive or sent.status >= 500:
        assert legal.is_legal(sent), f"this request may not get a {sent.status}: {sent}"
    for start in legal.illegal_results(sent):
        raise AssertionError(f"this command of a batch had to start: {start}")


@schemathesis.check
def every_record_matches_its_schema(context, response, case):
    if not (response.headers.get("content-type") or [""])[0].startswith(NDJSON):
        return
    document = case.operation.schema.raw_schema
    is_of_changes = case.operation.label in (WATCH, DENIALS)
    names = {WATCH: "WatchRecord", DENIALS: "DenialRecord", RUN_CODE: "RunRecord"}
    name = names.get(case.operation.label, "Record")
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    records = [json.loads(line) for line in response.content.splitlines()]
    for record in records:
        Draft202012Validator(schema).validate(record)
    last = records[-1] if records else {}
    if is_of_changes and case.query.get("passive") in (True, "true") and records == [{"event": "lost"}]:
        # It does not wake a parked sandbox.
        return
    if is_of_changes:
        assert records[0]["event"] == "ready", f"the stream of {response.request.url} begins with {records[0]}"
        assert last["event"] in ("gone", "lost"), f"the stream of {response.request.url} ends with {last}"
        return
    follows = "follow=false" not in response.request.url
    end = "end" if case.operation.label == RUN_CODE else "exit"
    assert last.get("stream") == end or not follows, f"the stream of {response.request.url} has no end record"


@schemathesis.check
def a_websocket_is_accepted_as_the_protocol_says(context, response, case):
    """RFC 6455, section 4.2.2."""
    if response.status_code == 101:
        expected = base64.b64encode(hashlib.sha1((WEBSOCKET_KEY + WEBSOCKET_TEXT).encode()).digest()).decode()
        assert response.headers["sec-websocket-accept"] == [expected], response.headers
