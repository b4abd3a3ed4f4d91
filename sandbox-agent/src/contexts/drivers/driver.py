"""The interpreter of a Python context.

Arguments: the number of the control descriptor, and the maximum size of a record in bytes. The agent sends
`<run> LF <code> NUL` for each run. The driver answers with records: a line `<run> <kind> <count>`, and for each value a
line `<name> <bytes>` and the bytes. The kind `done` ends the run. What the code prints is not part of the protocol.
"""

import ast
import builtins
import importlib.machinery
import linecache
import os
import signal
import sys
import threading
import types

CONTROL = int(sys.argv[1])
MAX_RECORD_BYTES = int(sys.argv[2])
# Bytes of a record that are left for its lines.
FRAMING_BYTES = 1024
PID = os.getpid()

# Formats of a value, the method of each (as in Jupyter), and its MIME type.
FORMATS = {
    "html": ("_repr_html_", "text/html"),
    "markdown": ("_repr_markdown_", "text/markdown"),
    "svg": ("_repr_svg_", "image/svg+xml"),
    "png": ("_repr_png_", "image/png"),
    "json": ("_repr_json_", "application/json"),
}

lock = threading.Lock()
current = 0
loop = None


def send(kind, values):
    """Sends a record of the current run. Values that do not fit are skipped."""
    parts, left = [], MAX_RECORD_BYTES - FRAMING_BYTES
    for name, value in values.items():
        if isinstance(value, str):
            value = value.encode("utf-8", "replace")
        if len(value) > left:
            if name in ("png", "json", "svg"):
                continue
            value = value[:left].decode("utf-8", "ignore").encode()
        left -= len(value)
        parts.append(b"%s %d\n%s" % (name.encode(), len(value), value))
    data = memoryview(b"%d %s %d\n%s" % (current, kind.encode(), len(parts), b"".join(parts)))
    with lock:
        while data:
            data = data[os.write(CONTROL, data):]


def flush():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except Exception:
            pass


def text_of(value):
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"


def formats_of(value):
    """Returns a value in the formats that it supports."""
    found = {"text": text_of(value)}
    if "matplotlib.figure" in sys.modules and isinstance(value, sys.modules["matplotlib.figure"].Figure):
        return {**found, "png": png_of(value)}
    bundle = {}
    if not isinstance(value, type) and hasattr(value, "_repr_mimebundle_"):
        bundle = called(value._repr_mimebundle_) or {}
        bundle = bundle[0] if isinstance(bundle, tuple) else bundle
        found["text"] = bundle.get("text/plain", found["text"])
    for name, (method, mime) in FORMATS.items():
        shown = bundle.get(mime)
        if shown is None and not isinstance(value, type) and hasattr(value, method):
            shown = called(getattr(value, method))
        shown = shown[0] if isinstance(shown, tuple) else shown
        shown = encoded(name, shown)
        if shown is not None:
            found[name] = shown
    return found


def called(method):
    try:
        return method()
    except Exception:
        return None


def encoded(name, shown):
    if shown is None:
        return None
    if name == "json":
        import json

        try:
            return json.dumps(shown)
        except (TypeError, ValueError):
            return None
    if name == "png" and isinstance(shown, str):
        import base64

        return base64.b64decode(shown)
    return shown if isinstance(shown, (str, bytes)) else None


def display(*values, **_options):
    """Shows values in the run's stream."""
    for value in values:
        flush()
        send("display", formats_of(value))


def png_of(figure):
    import io

    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    return image.getvalue()


def show_figures(*_arguments, **_options):
    """Shows all open figures and closes them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        try:
            display(figure)
        finally:
            pyplot.close(figure)


class AfterImport:
    """Changes modules after they are imported, so that nothing is imported that the code does not use."""

    hooks = {
        "matplotlib": lambda module: module.use("agg"),
        "matplotlib.pyplot": lambda module: setattr(module, "show", show_figures),
        "IPython.core.display_functions": lambda module: setattr(module, "display", display),
    }

    @classmethod
    def find_spec(cls, name, path, target=None):
        hook = cls.hooks.get(name)
        spec = hook and importlib.machinery.PathFinder.find_spec(name, path, target)
        if not spec or not spec.loader:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            hook(module)

        spec.loader.exec_module = exec_module
        return spec


def shell_line(line):
    """Runs `%pip …` and `!…`, as in IPython."""
    import subprocess

    flush()
    if line.startswith("!"):
        subprocess.run(["bash", "-c", line[1:]], check=False)
        return
    name, _, rest = line[1:].partition(" ")
    if name == "pip":
        import importlib
        import shlex
        import site

        subprocess.run([sys.executable, "-m", "pip", *shlex.split(rest)], check=False)
        site.addsitedir(site.getusersitepackages())
        importlib.invalidate_caches()
    elif name != "matplotlib":
        raise SyntaxError(f"only %pip and !command are supported, not %{name}")


def with_shell_lines(code):
    def translated(line):
        command = line.lstrip()
        if not command.startswith(("%", "!")):
            return line
        indent = line[: len(line) - len(command)]
        return f"{indent}__sandbox_shell_line__({command.rstrip()!r})"

    return "\n".join(translated(line) for line in code.split("\n"))


def parsed(code, name):
    try:
        return code, ast.parse(code, name)
    except SyntaxError:
        translated = with_shell_lines(code)
        if translated == code:
            raise
        return translated, ast.parse(translated, name)


def evaluated(tree, name):
    code = compile(tree, name, "eval" if isinstance(tree, ast.Expression) else "exec", FLAGS)
    value = eval(code, main.__dict__)
    return awaited(value) if code.co_flags & 0x80 else value


def awaited(coroutine):
    """Runs a coroutine of top-level `await`s in the loop of the context."""
    global loop
    import asyncio

    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        raise


def execute(code):
    name = f"<run {current}>"
    code, tree = parsed(code, name)
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if tree.body:
        evaluated(tree, name)
    if last is not None:
        value = evaluated(ast.Expression(last.value), name)
        if value is not None:
            builtins._ = value
            flush()
            send("result", formats_of(value))


def report(error):
    """Sends an error, without the frames outside of the code."""
    import traceback

    if isinstance(error, SystemExit) and error.code in (None, 0):
        return
    trace = error.__traceback__
    while trace and not trace.tb_frame.f_code.co_filename.startswith("<run "):
        trace = trace.tb_next
    try:
        value = str(error)
    except Exception:
        value = "<its str raised an error>"
    lines = traceback.format_exception(type(error), error, trace)
    send("error", {"name": type(error).__name__, "value": value, "traceback": "".join(lines)})


def perform(code):
    try:
        # The code may have set another handler in an earlier run.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            execute(code)
        finally:
            show_figures()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except BaseException as error:
        if os.getpid() == PID:
            flush()
            report(error)
    if os.getpid() != PID:
        # A child that the code forked and that came back from it.
        flush()
        os._exit(0)
    flush()
    send("done", {})


def runs():
    """Yields the runs that the agent sends."""
    waiting = b""
    while True:
        end = waiting.find(b"\0")
        if end >= 0:
            number, _, code = waiting[:end].partition(b"\n")
            waiting = waiting[end + 1:]
            yield int(number), code.decode()
            continue
        received = os.read(CONTROL, 65536)
        if not received:
            return
        waiting += received


FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
main = types.ModuleType("__main__")
# Kept, because a module that nobody refers to loses its variables.
own_module = sys.modules["__main__"]
sys.modules["__main__"] = main
source_path = sys.argv[0]
sys.argv = [""]
sys.path[0] = ""
sys.meta_path.insert(0, AfterImport)
builtins.display = display
builtins.__sandbox_shell_line__ = shell_line
os.set_inheritable(CONTROL, False)
# The descriptor of this file.
os.close(int(source_path.rpartition("/")[2]))
sys.stdout.reconfigure(line_buffering=True)
signal.signal(signal.SIGINT, signal.SIG_IGN)
for current, source in runs():
    perform(source)
