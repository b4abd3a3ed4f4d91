"""Texts with a syntax of their own that no schema can express: cursors, searches, pipelines and exported snapshots.

Each function looks only at the input. Where Python cannot decide what the daemon decides, an input is valid only if it
certainly is, so a function whose name begins with `may_be` may be true for a valid input.
"""

import base64
import re

MAX_PATH_BYTES = 4095

MAX_PATTERN_BYTES = 4096

# Length of the key of a value in bytes.
MAX_KEY_BYTES = 256

MAX_PATTERNS = 100

# Regular expressions and globs with more groups in each other are not decided here. The daemon's limit is higher.
MAX_GROUPS = 50

MAX_CAPTURE_SCRIPT_BYTES = 64 * 1024

MAX_STAGES = 32

# The parts of an exported snapshot: crates/snapshot-format/src/archive.
MAGIC = b"SBXSNAP\0"
VERSION = 1
MAX_HEADER_BYTES = 64 * 1024
CHUNK, TRAILER = 1, 2
HASH_BYTES = 32
MAX_CHUNK_BYTES = 256 * 1024
MAX_COMPRESSED_BYTES = MAX_CHUNK_BYTES + MAX_CHUNK_BYTES // 256 + 64

# What is a regular expression in Rust if it is one in Python: no flags, look-around, counts, classes with operators or
# escapes other than those of punctuation.
SAME_IN_RUST = re.compile(r"(?:\\[\\.+*?()|\[\]{}^$]|\[\^?[A-Za-z0-9_ ]+\]|\((?!\?)|[^\\\[{(\n])*")

# A part of a glob: an escaped character, a class, or one character.
PART_OF_GLOB = re.compile(r"\\.|\[(?:[!^].|[^!^])[^\]]*\]|[^\\\[]", re.DOTALL)

# What may be between two commands of a script.
OPERATOR = re.compile(r"\|\||&&|[|;\n]")

# A command that has only words without quotes, expansions or other syntax.
PLAIN_COMMAND = re.compile(r"[ \t]*([^\s\"'$`\\()<>&;|#\[\]{}!*?~=]+)(?:[ \t]+[^\s\"'$`\\()<>&;|#\[\]{}!*?~=]+)*[ \t]*")

# Words of bash that are not commands.
RESERVED = set("case coproc do done elif else esac fi for function if in select then time until while -p".split())


def decoded(cursor):
    """Returns the bytes of base64 for URLs without padding, or None if the cursor is not that."""
    try:
        found = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    return found if base64.urlsafe_b64encode(found).rstrip(b"=").decode() == cursor else None


def is_cursor_of_files(cursor):
    path = decoded(cursor)
    return path is not None and b"\0" not in path and len(path) <= MAX_PATH_BYTES


def is_cursor_of_snapshots(cursor):
    """It is the time in milliseconds and the id of a snapshot."""
    found = re.fullmatch(r"\+?0*([0-9]{1,19})-snap_[A-Za-z0-9]{16,64}", cursor)
    return found is not None and int(found[1]) < 1 << 63


def is_number(text):
    """Decimal, without other digits at the front, below 2^64."""
    return re.fullmatch(r"0|[1-9][0-9]{0,19}", text, re.ASCII) is not None and int(text) < 1 << 64


def is_cursor_of_lines(cursor):
    """It is the number of a file and an offset in it."""
    parts = cursor.split(".")
    return len(parts) == 2 and all(is_number(part) for part in parts)


def is_name_of_project(text):
    return len(text) <= 63 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", text) is not None


def is_id_of_token(text):
    return re.fullmatch(r"tok_[A-Za-z0-9]{16,64}", text) is not None


def is_long_key(text):
    """Characters are counted in the schema, and bytes by the daemon."""
    return len(text.encode(errors="surrogatepass")) > MAX_KEY_BYTES


def is_key(text):
    is_plain = re.search(r"[\x00-\x1f\x7f-\x9f]", text) is None and text not in ("", ".", "..")
    return is_plain and not is_long_key(text)


def is_too_long(text):
    """Characters are counted in the schema, and bytes by the daemon."""
    return len(text.encode(errors="surrogatepass")) > MAX_PATTERN_BYTES


def may_be_no_query(query, is_regex):
    if is_too_long(query) or "\n" in query:
        return True
    return is_regex and not is_certainly_a_regex(query)


def is_certainly_a_regex(query):
    if SAME_IN_RUST.fullmatch(query) is None or query.count("(") > MAX_GROUPS:
        return False
    try:
        re.compile(query)
    except re.error:
        return False
    return True


def may_be_no_globs(globs):
    return len(globs) > MAX_PATTERNS or any(is_too_long(glob) or not is_certainly_a_glob(glob) for glob in globs)


def is_certainly_a_glob(glob):
    """Braces and classes must be closed, and ranges ascend."""
    parts = PART_OF_GLOB.findall(glob)
    depth = 0
    for part in parts:
        depth += {"{": 1, "}": -1}.get(part, 0)
        if depth < 0 or depth > MAX_GROUPS or (part[0] == "[" and descends(part[1:-1])):
            return False
    return depth == 0 and "".join(parts) == glob


def descends(members):
    """Whether a range in a class ends before its first character."""
    begin, is_range = None, False
    for at, char in enumerate(members[1:] if members[0] in "!^" else members):
        if is_range:
            if char < begin:
                return True
            is_range = False
        elif char == "-" and at > 0:
            is_range = True
        else:
            begin = char
    return False


def may_have_no_stages(command):
    """Whether the stages of a command may be impossible to capture."""
    script = command.get("script")
    if script is None or command.get("debug") or len(script.encode(errors="surrogatepass")) > MAX_CAPTURE_SCRIPT_BYTES:
        return True
    return not is_plain(script)


def is_plain(script):
    """Whether it consists of commands of plain words with operators between them. The last ones may be a pipeline."""
    commands = [PLAIN_COMMAND.fullmatch(command) for command in OPERATOR.split(script)]
    is_command = [command is not None and command[1] not in RESERVED for command in commands]
    return len(commands) <= MAX_STAGES and all(is_command)


def may_be_an_export(content):
    """Whether all parts are there and nothing else. Python has no BLAKE3, so the hash at the end is not compared."""
    prefix = MAGIC + VERSION.to_bytes(4, "little")
    header = int.from_bytes(content[len(prefix) : len(prefix) + 4], "little")
    if not content.startswith(prefix) or header > MAX_HEADER_BYTES:
        return False
    at, chunks = len(prefix) + 4 + header, 0
    while content[at : at + 1] == bytes([CHUNK]):
        sizes = content[at + 1 + HASH_BYTES : at + 1 + HASH_BYTES + 8]
        length, compressed = int.from_bytes(sizes[:4], "little"), int.from_bytes(sizes[4:], "little")
        if length > MAX_CHUNK_BYTES or compressed > MAX_COMPRESSED_BYTES:
            return False
        at, chunks = at + 1 + HASH_BYTES + 8 + compressed, chunks + 1
    trailer = bytes([TRAILER]) + chunks.to_bytes(8, "little")
    return content[at:].startswith(trailer) and len(content) == at + len(trailer) + HASH_BYTES
