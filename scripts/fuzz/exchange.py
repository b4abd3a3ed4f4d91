"""A request as it was sent, with its response, and the paths that it names."""

import json
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

import daemon

# Operations on files, and where each names the path that must exist.
PATHS = {
    "getFile": ("query", "path"),
    "readFile": ("query", "path"),
    "deleteFile": ("query", "path"),
    "statFile": ("query", "path"),
    "listFiles": ("query", "path"),
    "packFiles": ("query", "path"),
    "watchFiles": ("query", "path"),
    "editFile": ("body", "path"),
    "linkFile": ("body", "path"),
    "grepFiles": ("body", "path"),
    "globFiles": ("body", "path"),
    "moveFile": ("body", "from"),
}

# A failure prints the request, without its token.
TOKEN_HEADER = "x-remcochat-admin-token"


@dataclass
class Exchange:
    """A request as it was sent, and its response."""

    operation: str
    path: dict
    query: dict
    headers: dict
    body: object
    status: int
    answer: dict = field(default_factory=dict)
    sent_at: float = 0

    @property
    def details(self):
        return self.answer.get("details", {})

    @property
    def sandbox(self):
        return self.path["id"]

    def named(self, part, name):
        fields = self.query if part == "query" else self.body if isinstance(self.body, dict) else {}
        return fields.get(name)


def exchange_of(case, response, sent_at):
    request = response.request
    url = urlsplit(request.url)
    template = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]*)", re.escape(case.operation.path))
    path = re.fullmatch(template, url.path)
    return Exchange(
        operation=case.operation.definition.raw["operationId"],
        path={name: unquote(value) for name, value in path.groupdict().items()} if path else {},
        query=dict(parse_qsl(url.query, keep_blank_values=True, errors="surrogateescape")),
        headers={name.lower(): value for name, value in request.headers.items() if name.lower() != TOKEN_HEADER},
        body=content_of(request.body, request.headers.get("content-type", "")),
        status=response.status_code,
        answer=answer_of(response),
        sent_at=sent_at,
    )


def content_of(body, kind):
    raw = body.encode() if isinstance(body, str) else body or b""
    if kind.startswith("text/plain"):
        return {"script": raw.decode("utf-8", "replace")}
    if not kind.startswith("application/json"):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def answer_of(response):
    """Returns a JSON response, or the first record of a stream."""
    try:
        found = json.loads((response.content or b"").partition(b"\n{")[0])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def what_is_at(exchange, path):
    return daemon.look_inside(exchange.sandbox, [path or ""])["paths"][0]


def what_is_named(exchange):
    """Describes the path that the operation uses."""
    return what_is_at(exchange, exchange.named(*PATHS[exchange.operation]))
