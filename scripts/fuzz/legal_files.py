"""Conditions for errors of files. See legal.py."""

import base64
import io
import re
import tarfile
from urllib.parse import quote

import daemon
import syntax
from exchange import PATHS, what_is_at, what_is_named
from legal import legal


@legal(422, "getFile", "readFile", "editFile", "linkFile")
def is_not_a_file(exchange):
    found = what_is_named(exchange)
    return found["kind"] in ("outside", "directory", "other", "unusable") or not found["isReadable"]


@legal(422, "statFile", "deleteFile", "packFiles", "grepFiles", "watchFiles")
def is_not_a_path(exchange):
    return what_is_named(exchange)["kind"] in ("outside", "unusable")


@legal(400, "getFile")
def is_condition_without_secrets(exchange):
    return exchange.query.get("hideSecrets") == "true" and exchange.details.get("field") == "if-match"


@legal(422, "grepFiles")
def is_not_a_readable_file(exchange):
    """A search of a directory skips what it cannot read. A search of a single file fails."""
    found = what_is_named(exchange)
    return found["kind"] == "file" and not found["isReadable"]


@legal(422, "packFiles")
def is_not_readable(exchange):
    found = what_is_named(exchange)
    return found["kind"] in ("file", "directory") and not found["isReadable"]


@legal(422, "listFiles", "globFiles")
def is_not_a_directory(exchange):
    return what_is_named(exchange)["kind"] in ("outside", "file", "other", "unusable")


def cannot_be_a_file(found):
    if found["kind"] == "missing":
        return found.get("isBeneathFile") or not found["isCreatable"] or found["endsAsDirectory"]
    return found["kind"] != "file"


@legal(422, "putFile")
def cannot_be_written(exchange):
    return cannot_be_a_file(what_is_at(exchange, exchange.query["path"]))


@legal(422, "writeFiles")
def one_cannot_be_written(exchange):
    paths = [file["path"] for file in exchange.body["files"]]
    found = daemon.look_inside(exchange.sandbox, paths)["paths"]
    return any(map(cannot_be_a_file, found)) or is_beneath_another(paths)


def is_beneath_another(paths):
    names = [[part for part in path.split("/") if part not in ("", ".")] for path in paths]
    return any(one != other and other[: len(one)] == one for one in names for other in names)


@legal(422, "makeDirectory", "unpackFiles")
def cannot_be_a_directory(exchange):
    part = "body" if exchange.operation == "makeDirectory" else "query"
    found = what_is_at(exchange, exchange.named(part, "path"))
    if found["kind"] == "missing":
        return found.get("isBeneathFile") or not found["isCreatable"]
    return found["kind"] in ("outside", "unusable")


@legal(409, "makeDirectory")
def is_something_else(exchange):
    return what_is_at(exchange, exchange.body["path"])["kind"] in ("file", "other")


@legal(422, "unpackFiles")
def is_not_an_archive(exchange):
    try:
        with tarfile.open(fileobj=io.BytesIO(exchange.body)) as archive:
            return not archive.getmembers()
    except tarfile.TarError:
        return True


@legal(422, "moveFile")
def cannot_be_moved(exchange):
    source, target = ends_of_move(exchange)
    if "outside" in (source["kind"], target["kind"]) or "unusable" in (source["kind"], target["kind"]):
        return True
    if target["kind"] == "missing":
        return target.get("isBeneathFile") or not target["isCreatable"] or source["kind"] == "directory"
    return source["kind"] != target["kind"]


@legal(409, "moveFile")
def may_not_be_replaced(exchange):
    _, target = ends_of_move(exchange)
    if target["kind"] == "directory" and exchange.body.get("overwrite"):
        return not target["isEmpty"]
    return target["kind"] in ("file", "directory", "other") and not exchange.body.get("overwrite")


def ends_of_move(exchange):
    return daemon.look_inside(exchange.sandbox, [exchange.body["from"], exchange.body["to"]])["paths"]


@legal(400, "deleteFile", "moveFile")
def is_the_workspace(exchange):
    name = exchange.details.get("field")
    path = exchange.named(PATHS[exchange.operation][0], name)
    return path is not None and what_is_at(exchange, path).get("isWorkspace", False)


@legal(409, "deleteFile")
def is_not_empty(exchange):
    found = what_is_named(exchange)
    return found["kind"] == "directory" and not found["isEmpty"] and exchange.query.get("recursive") != "true"


@legal(409, "editFile")
def does_not_occur_once(exchange):
    """The edits before the named one apply to the text first, unless all apply to the original."""
    text = text_of(exchange)
    for edit in exchange.body["edits"]:
        count = occurrences(text, edit["oldText"])
        if count == 0 or (count > 1 and not edit.get("replaceAll")):
            return True
        if not exchange.body.get("allOnOriginal"):
            text = text.replace(edit["oldText"], edit["newText"])
    return False


@legal(400, "editFile")
def overlaps_another(exchange):
    if not exchange.body.get("allOnOriginal"):
        return False
    text, ranges = text_of(exchange), []
    for edit in exchange.body["edits"]:
        old = edit["oldText"]
        ranges += [(at, at + len(old)) for at in range(len(text)) if text.startswith(old, at)]
    ranges.sort()
    return any(second[0] < first[1] for first, second in zip(ranges, ranges[1:], strict=False))


def text_of(exchange):
    return base64.b64decode(what_is_named(exchange)["content"]).decode(errors="surrogateescape")


def occurrences(text, part):
    """Counts occurrences that overlap too."""
    return sum(text.startswith(part, at) for at in range(len(text)))


# Conditions and ranges of HTTP.


def etag_of(exchange):
    path = quote(exchange.query["path"], errors="surrogateescape")
    kind = what_is_at(exchange, exchange.query["path"])["kind"]
    if kind in ("missing", "outside", "unusable"):
        return kind, None
    return kind, daemon.get(f"/v1/sandboxes/{exchange.sandbox}/files:stat?path={path}").get("etag")


@legal(412, "getFile", "putFile", "deleteFile")
def has_another_etag(exchange):
    wanted = exchange.headers.get("if-match")
    kind, etag = etag_of(exchange)
    if wanted is None or "*" in wanted.split(","):
        return wanted is not None and kind == "missing"
    return etag is None or f'"{etag}"' not in [one.strip() for one in wanted.split(",")]


@legal(412, "putFile")
def exists_already(exchange):
    return exchange.headers.get("if-none-match") == "*" and etag_of(exchange)[0] != "missing"


@legal(304, "getFile")
def is_current(exchange):
    known = [one.strip().removeprefix("W/") for one in exchange.headers.get("if-none-match", "").split(",")]
    kind, etag = etag_of(exchange)
    return kind == "file" and ("*" in known or f'"{etag}"' in known)


@legal(416, "getFile")
def has_no_byte_in_the_range(exchange):
    span = re.fullmatch(r"bytes\s*=\s*(\d*)-(\d*)\s*", exchange.headers.get("range", ""), re.IGNORECASE)
    found = what_is_at(exchange, exchange.query["path"])
    size = len(base64.b64decode(found.get("content", "")))
    return span is not None and (int(span[1]) >= size if span[1] else int(span[2] or 0) == 0 or size == 0)


# Texts with a syntax of their own.


@legal(400, "listFiles")
def is_no_cursor(exchange):
    cursor = exchange.query.get("cursor", "")
    return cursor != "" and not syntax.is_cursor_of_files(cursor)


@legal(400, "grepFiles")
def is_no_query(exchange):
    if exchange.details.get("field") != "query":
        return False
    return syntax.may_be_no_query(exchange.body["query"], bool(exchange.body.get("regex")))


@legal(400, "grepFiles", "globFiles")
def is_no_glob(exchange):
    names = ["include"] if exchange.operation == "grepFiles" else ["pattern", "exclude"]
    name = exchange.details.get("field")
    globs = exchange.body.get(name) if name in names else None
    return syntax.may_be_no_globs([globs] if isinstance(globs, str) else globs or [])
