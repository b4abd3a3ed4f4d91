"""Conditions for errors of sandboxes, commands, terminals, links and orphans. See legal.py."""

import re
from datetime import datetime

import daemon
import syntax
from exchange import PATHS, what_is_named
from legal import legal

# Number of ended commands of a sandbox whose output is kept.
KEPT_COMMANDS = 256

# Delay between the end of a command and the moment at which the daemon reports it.
REPORT_SECONDS = 0.2

# Number of wrapped servers of a sandbox.
MAX_MCP_SERVERS = 16

# Number of contexts of a sandbox.
MAX_CONTEXTS = 8

# Number of sandboxes that run at the same time. The settings of the fuzzed daemon do not change it.
MAX_CONCURRENT = 8

# Total length of the program and the arguments of a wrapped server in bytes.
MAX_MCP_COMMAND_BYTES = 32 * 1024


# Objects that do not exist.


@legal(404)
def is_missing(exchange):
    resource, path = exchange.details.get("resource"), exchange.path
    if exchange.operation in ("deleteSandbox", "stopSandbox"):
        return False
    if resource == "sandbox":
        named = path.get("id") or exchange.named("body", "sandboxId")
        return named is not None and named not in daemon.sandboxes
    if resource == "command":
        return "commandId" in path and (find(exchange, "commands", "commandId") is None or is_forgotten(exchange))
    if resource == "terminal":
        return "terminalId" in path and find(exchange, "terminals", "terminalId") is None
    if resource == "context":
        return "contextId" in path and find(exchange, "contexts", "contextId") is None
    if resource == "toolCall":
        # The code of the runs calls no tools.
        return exchange.operation == "answerToolCall"
    if resource == "file":
        return exchange.operation in PATHS and what_is_named(exchange)["kind"] == "missing"
    if resource == "port":
        return exchange.operation == "createLink" and not is_offered(exchange)
    if resource == "link":
        links = daemon.get(f"/v1/sandboxes/{exchange.sandbox}/ports/{path['port']}/links")["links"]
        return exchange.operation == "getLink" and path["linkId"] not in [link["linkId"] for link in links]
    if resource == "route":
        # No object has such a name. What follows the colon is read as an action.
        return ":" in path.get("name", "")
    if resource == "mcpServer":
        return "name" in path and path["name"] not in [server["name"] for server in mcp_servers(exchange)]
    if resource == "snapshot":
        named = [path.get("snapshotId"), exchange.named("query", "from"), named_in_body(exchange)]
        return any(snapshot is not None and not daemon.has_snapshot(snapshot) for snapshot in named)
    if resource == "project":
        projects = daemon.get("/v1/projects?limit=1000")["projects"]
        return "project" in path and path["project"] not in [project["name"] for project in projects]
    if resource == "value":
        kept = daemon.get(f"/v1/sandboxes/{exchange.sandbox}/kv?limit=1000")["values"]
        return exchange.operation == "getValue" and exchange.path["key"] not in [value["key"] for value in kept]
    if resource == "orphan":
        orphans = daemon.get("/v1/orphans")["orphans"]
        return exchange.operation == "removeOrphan" and path["name"] not in [orphan["name"] for orphan in orphans]
    return False


def named_in_body(exchange):
    workspace = exchange.named("body", "workspace")
    return workspace.get("snapshotId") if isinstance(workspace, dict) else exchange.named("body", "snapshotId")


def find(exchange, kind, name):
    """Returns the command or terminal that the path names."""
    limit = "?limit=1000" if kind == "commands" else ""
    found = daemon.get(f"/v1/sandboxes/{exchange.sandbox}/{kind}{limit}")[kind]
    return next((one for one in found if one[name] == exchange.path[name]), None)


def is_forgotten(exchange):
    """Whether the daemon has only the record of the command, without its output and processes."""
    command = find(exchange, "commands", "commandId")
    if exchange.operation not in ("killCommand", "readCommandLogs", "writeStdin") or command["state"] != "ended":
        return False
    commands = daemon.get(f"/v1/sandboxes/{exchange.sandbox}/commands?limit=1000")["commands"]
    ends = [seconds(one["endedAt"]) for one in commands if one["endedAt"] is not None]
    later = [end for end in ends if end >= seconds(command["endedAt"])]
    is_of_earlier_container = seconds(command["startedAt"]) < daemon.look_inside(exchange.sandbox)["containerStart"]
    return is_of_earlier_container or len(later) > KEPT_COMMANDS


def is_offered(exchange):
    return int(exchange.path["port"]) in daemon.get(f"/v1/sandboxes/{exchange.sandbox}")["ports"]


# Sandboxes.


@legal(403, "createSandbox", "changeNetwork")
def requests_open_network(exchange):
    network = exchange.body.get("network") if exchange.operation == "createSandbox" else exchange.body
    return (network or {}).get("mode") == "open"


@legal(400, "createSandbox")
def hides_a_missing_variable(exchange):
    """No schema can say that each name is one of another field."""
    names = exchange.body.get("secretEnv") or []
    return exchange.details.get("field") == "secretEnv" and not set(names) <= set(exchange.body.get("env") or {})


@legal(422, "createSandbox")
def requests_an_image(exchange):
    """The fuzzed daemon allows no image."""
    return exchange.body.get("image") is not None and exchange.details.get("field") == "image"


@legal(409, "deleteSandbox")
def is_not_parked(exchange):
    state = daemon.get(f"/v1/sandboxes/{exchange.sandbox}")["state"]
    return exchange.query.get("ifState") == "parked" and state != "parked"


@legal(409, "parkSandbox")
def is_in_use(exchange):
    if isinstance(exchange.body, dict) and exchange.body.get("force"):
        return False
    commands = daemon.get(f"/v1/sandboxes/{exchange.sandbox}/commands?limit=1000")["commands"]
    terminals = daemon.get(f"/v1/sandboxes/{exchange.sandbox}/terminals")["terminals"]
    # A shell at its prompt is not in use. It is in use while it starts.
    programs = [one for one in terminals if not one["isShell"] or seconds(one["startedAt"]) > exchange.sent_at - 2]
    return any(ended_after(one, exchange.sent_at) for one in [*commands, *programs])


def seconds(time_text):
    return datetime.fromisoformat(time_text.replace("Z", "+00:00")).timestamp()


def ended_after(one, moment):
    return one["endedAt"] is None or seconds(one["endedAt"]) + REPORT_SECONDS > moment


# Commands and terminals.


@legal(400, "runInRepository", "queryRepository", "createSandbox")
def names_no_repository(exchange):
    """What is a repository, a ref or a version is too much for a schema. So is what a workspace must not have together."""
    field = exchange.details.get("field", "").removeprefix("workspace.")
    if field == "workspace":
        return exchange.body.get("workspace") is not None
    return field in ("repository", "ref", "version") and repository_of(exchange) is not None


@legal(422, "runInRepository", "queryRepository", "createSandbox")
def has_no_repositories(exchange):
    """The fuzzed daemon has none, because it would ask servers on the internet."""
    return repository_of(exchange) is not None and "SANDBOXD_REPOSITORIES_MB" in exchange.answer["error"]


@legal(400, "createSandbox", "openContext")
def names_no_packages(exchange):
    """What is a package and its versions is too much for a schema. So is that only Python has some, and only without a workspace."""
    return bool(exchange.body.get("packages")) and exchange.details.get("field", "").startswith("packages")


@legal(422, "createSandbox", "openContext")
def has_no_packages(exchange):
    """The fuzzed daemon has none, because it would ask an index on the internet."""
    return bool(exchange.body.get("packages")) and "SANDBOXD_PACKAGES_MB" in exchange.answer["error"]


def repository_of(exchange):
    if exchange.operation == "queryRepository":
        return exchange.named("query", "repository")
    body = exchange.body if exchange.operation == "runInRepository" else exchange.body.get("workspace")
    return body.get("repository") if isinstance(body, dict) else None


@legal(409, "startCommand", "runCommand")
def has_the_id_of_another_command(exchange):
    earlier = daemon.started.get((exchange.sandbox, exchange.body.get("commandId")))
    request = exchange.body | (daemon.RUN_TO_END if exchange.operation == "runCommand" else {})
    return earlier is not None and canonical(earlier) != canonical(request)


def canonical(start):
    """A start without fields that have their default value."""
    return {name: value for name, value in start.items() if value not in (None, False, {}, [], "")}


@legal(422, "startCommand", "runCommand", "openTerminal")
def cannot_start(exchange):
    body, step = exchange.body, exchange.details.get("step")
    program = {"cmd": body.get("cmd") or "bash", "args": body.get("args") or []}
    if body.get("script") is not None:
        program = {"cmd": "bash", "args": []}
    start = {**program, "cwd": body.get("cwd"), "env": body.get("env") or {}}
    found = daemon.look_inside(exchange.sandbox, [start["cwd"] or ""], start)
    if found["paths"][0]["kind"] == "outside":
        return step == "cwd"
    return step is not None and step == found["failedStep"]


# Programs of contexts.
PROGRAMS = {"python": "python3", "javascript": "node", "typescript": "node", "bash": "bash"}


@legal(422, "openContext")
def cannot_start_an_interpreter(exchange):
    body, step = exchange.body, exchange.details.get("step")
    program = {"cmd": PROGRAMS[body["language"]], "args": []}
    start = {**program, "cwd": body.get("cwd"), "env": body.get("env") or {}}
    found = daemon.look_inside(exchange.sandbox, [start["cwd"] or ""], start)
    if found["paths"][0]["kind"] == "outside":
        return step == "cwd"
    return step is not None and step == found["failedStep"]


# Keywords by which a schema of a tool may be wrong, beside those that begin with `$`.
SCHEMA_KEYWORDS = set(
    "additionalItems additionalProperties allOf anyOf const contains contentSchema definitions dependencies "
    "dependentRequired dependentSchemas else enum exclusiveMaximum exclusiveMinimum format if items maxContains maxItems "
    "maxLength maxProperties maximum minContains minItems minLength minProperties minimum multipleOf not oneOf pattern "
    "patternProperties prefixItems properties propertyNames required then type unevaluatedItems unevaluatedProperties "
    "uniqueItems extends".split()
)


@legal(400, "openContext")
def has_wrong_tools(exchange):
    """A schema says nothing of names that are repeated, or of which schemas are supported."""
    field, tools = exchange.details.get("field") or "", exchange.body.get("tools") or []
    if field == "tools":
        return exchange.body["language"] == "bash" and tools
    found = re.fullmatch(r"tools\[(\d+)\]\.(\w+)", field)
    if not found or int(found[1]) >= len(tools):
        return False
    tool = tools[int(found[1])]
    if found[2] == "name":
        return tool["name"] in [other["name"] for other in tools[: int(found[1])]]
    schema = tool.get(found[2]) if found[2] in ("inputSchema", "outputSchema") else None
    return isinstance(schema, dict) and any(name in SCHEMA_KEYWORDS or name.startswith("$") for name in schema)


@legal(429, "openContext")
def is_one_context_too_many(exchange):
    return len(daemon.get(f"/v1/sandboxes/{exchange.sandbox}/contexts")["contexts"]) >= MAX_CONTEXTS


@legal(400, "startCommand", "runCommand")
def has_no_stages(exchange):
    """Only some scripts have stages that can be captured."""
    is_named = exchange.body.get("capture") is not None and exchange.details.get("field") == "capture"
    return is_named and syntax.may_have_no_stages(exchange.body)


@legal(400, "runBatch")
def captures_in_a_batch(exchange):
    commands = enumerate(exchange.body["commands"])
    captured = [f"commands[{at}].capture" for at, command in commands if command.get("capture") is not None]
    return exchange.details.get("field") in captured


@legal(409, "writeStdin")
def is_not_open(exchange):
    command = find(exchange, "commands", "commandId")
    name = (exchange.sandbox, exchange.path["commandId"])
    state = exchange.details["state"]
    if state == "neverOpened":
        return name in daemon.started and not daemon.started[name].get("openStdin")
    if state == "ended":
        return command["state"] == "ended"
    return state == "closed" and (name in daemon.closed or command["state"] == "ended")


@legal(409, "typeIntoTerminal", "resizeTerminal")
def has_ended(exchange):
    return find(exchange, "terminals", "terminalId")["state"] == "ended"


@legal(409, "typeIntoTerminal")
def is_not_read(exchange):
    """A terminal keeps up to 4095 bytes for a program that does not read."""
    return exchange.details.get("takenBytes", 0) < len(exchange.body) and len(exchange.body) > 4095


@legal(504, "waitForCommand")
def ends_later(exchange):
    if "timeoutMs" not in exchange.query:
        return False
    limit = int(exchange.query["timeoutMs"]) / 1000
    command = find(exchange, "commands", "commandId")
    return ended_after(command, exchange.sent_at + limit)


# Wrapped servers.


def mcp_servers(exchange):
    return daemon.get(f"/v1/sandboxes/{exchange.sandbox}/mcp")["servers"]


@legal(409, "registerMcpServer")
def is_another_server(exchange):
    names = [server["name"] for server in mcp_servers(exchange)]
    return exchange.details.get("field") == "name" and exchange.body["name"] in names


@legal(429, "registerMcpServer")
def is_one_server_too_many(exchange):
    servers = mcp_servers(exchange)
    names = [server["name"] for server in servers]
    return len(servers) >= MAX_MCP_SERVERS and exchange.body["name"] not in names


@legal(400, "registerMcpServer")
def is_too_long(exchange):
    """No schema can limit the length of several fields together."""
    texts = [exchange.body["cmd"], *(exchange.body.get("args") or [])]
    return exchange.details.get("field") == "args" and len("".join(texts).encode()) > MAX_MCP_COMMAND_BYTES


# Snapshots.


@legal(409, "restoreSnapshot")
def runs_a_command(exchange):
    """A command may have ended since."""
    commands = daemon.get(f"/v1/sandboxes/{exchange.sandbox}/commands?limit=1000")["commands"]
    ended = [command for command in commands if command["state"] == "ended"]
    is_late = any(seconds(command["endedAt"]) >= exchange.sent_at - REPORT_SECONDS for command in ended)
    return not exchange.body.get("force") and (len(ended) < len(commands) or is_late)


@legal(409, "forkSandbox")
def is_taken(exchange):
    keys = [daemon.get(f"/v1/sandboxes/{sandbox}")["sessionKey"] for sandbox in daemon.sandboxes]
    return any(key in keys for key in exchange.body["sessionKeys"])


@legal(422, "importSnapshot")
def is_no_export(exchange):
    return isinstance(exchange.body, bytes) and not syntax.may_be_an_export(exchange.body)


@legal(400, "listSnapshots", "listAllSnapshots")
def is_no_cursor(exchange):
    cursor = exchange.query.get("cursor")
    return cursor is not None and not syntax.is_cursor_of_snapshots(cursor)


@legal(400, "listProjects")
def is_no_cursor_of_projects(exchange):
    cursor = exchange.query.get("cursor")
    return cursor is not None and not syntax.is_name_of_project(cursor)


@legal(400, "getValue", "putValue", "deleteValue")
def is_no_key(exchange):
    return exchange.details.get("field") == "key" and syntax.is_long_key(exchange.path["key"])


@legal(400, "listValues")
def lists_no_keys(exchange):
    cursor, prefix = exchange.query.get("cursor"), exchange.query.get("prefix")
    is_no_cursor = cursor is not None and not syntax.is_key(cursor)
    return is_no_cursor or (prefix is not None and syntax.is_long_key(prefix))


@legal(400, "createChildToken")
def would_manage_one_sandbox(exchange):
    """No schema can say that a value depends on another field."""
    permits = exchange.body.get("scopes") or []
    one_sandbox = exchange.body.get("sandboxId") is not None
    return exchange.details.get("field") == "scopes" and one_sandbox and "manage" in permits


@legal(400, "changeProject")
def is_guaranteed_too_much(exchange):
    """Another project has no guarantee, because `daemon.remember` takes each back."""
    quotas = exchange.body.get("quotas") or {}
    is_field = exchange.details.get("field") == "quotas.guaranteedRunning"
    return is_field and (quotas.get("guaranteedRunning") or 0) > MAX_CONCURRENT


@legal(400, "listTokens")
def is_no_cursor_of_tokens(exchange):
    cursor = exchange.query.get("cursor")
    return cursor is not None and not syntax.is_id_of_token(cursor)


@legal(400, "listHistory")
def is_no_cursor_of_commands(exchange):
    cursor = exchange.query.get("cursor")
    return cursor is not None and not syntax.is_number(cursor)


@legal(400, "listAudit")
def is_no_cursor_of_lines(exchange):
    cursor = exchange.query.get("cursor")
    return cursor is not None and not syntax.is_cursor_of_lines(cursor)


@legal(400, "compareSnapshots")
def is_no_cursor_of_changes(exchange):
    cursor = exchange.query.get("cursor")
    return cursor is not None and syntax.decoded(cursor) is None


# Denials and upgrades.


@legal(404, "allowDenied")
def is_no_denial(exchange):
    if exchange.details.get("resource") != "denial":
        return False
    denials = daemon.get(f"/v1/sandboxes/{exchange.sandbox}/network/denials")["denials"]
    return all(denial.get("id") != exchange.path["denialId"] for denial in denials)


@legal(400, "connectPort")
def requests_no_tcp(exchange):
    return exchange.headers.get("upgrade", "").lower() != "tcp" and exchange.details.get("field") == "upgrade"


@legal(400, "attachTerminal")
def requests_no_upgrade(exchange):
    return "sec-websocket-key" not in exchange.headers and exchange.details.get("field") == "upgrade"
