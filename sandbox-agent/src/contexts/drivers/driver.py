"""The interpreter of a Python context.

Arguments: the number of the control descriptor, and the maximum size of a record in bytes. The agent sends messages
`<head> LF <content> NUL`: `<run>` with its code, `tools` with the names of the caller's tools, and `result <id>` or
`error <id>` for what the code asked for. Except for the code, the content is JSON. The driver sends records: a line
`<run> <kind> <count>`, and for each value a line `<name> <bytes>` and the bytes. The kinds `call` and `search` ask for
something, and `done` ends the run. What the code prints is not part of the protocol.
"""

import ast
import builtins
import collections
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
# Calls of tools that wait at the same time. The agent refuses more.
MAX_CALLS = 16

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
running = False
loop = None


class Channel:
    """What the agent sends. One thread reads, and the others wait until it has read what they wait for."""

    def __init__(self):
        self.changed = threading.Condition()
        self.is_read = False
        self.waiting = b""
        self.runs = collections.deque()
        self.answers = {}
        self.is_closed = False

    def wait(self, take):
        """Waits until `take` returns something."""
        while True:
            with self.changed:
                while True:
                    found = take()
                    if found is not None:
                        return found
                    if not self.is_read:
                        break
                    self.changed.wait()
                self.is_read = True
            try:
                received = os.read(CONTROL, 65536)
            finally:
                with self.changed:
                    self.is_read = False
                    self.changed.notify_all()
            with self.changed:
                self.take(received)
                self.changed.notify_all()

    def take(self, received):
        self.is_closed = not received
        self.waiting += received
        *messages, self.waiting = self.waiting.split(b"\0")
        for message in messages:
            head, _, content = message.partition(b"\n")
            kind, _, number = head.partition(b" ")
            if kind == b"tools":
                offer_tools(content)
            elif number:
                self.answers[int(number)] = (kind, content)
            else:
                self.runs.append((int(kind), content.decode()))

    def next_run(self):
        """Returns the next run, or `False` if the agent has left."""
        return self.wait(lambda: self.runs.popleft() if self.runs else False if self.is_closed else None)

    def answer(self, request, run):
        """Returns the answer to a request of a run."""

        def take():
            if not running or current != run:
                raise RuntimeError("the run is over")
            return self.answers.pop(request, None)

        return self.wait(take)


channel = Channel()


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
    end_run()
    send("done", {})


def end_run():
    global running
    with channel.changed:
        running = False
        channel.answers.clear()
        # Threads that wait for an answer get none.
        channel.changed.notify_all()


class ToolError(Exception):
    """A call of a tool failed. `type` says how, for example `timeout`."""

    def __init__(self, type, message):
        super().__init__(message)
        self.type = type


class Tools:
    """The tools of the caller: `tools.call(name, arguments)`, or `tools.name(argument=…)`."""

    Error = ToolError

    def __init__(self, names):
        self._names = names
        self._count = 0
        self._turns = threading.BoundedSemaphore(MAX_CALLS)

    def call(self, name, arguments=None, /, **more):
        """Calls a tool and returns its result."""
        import json

        try:
            arguments = json.dumps({**(arguments or {}), **more}, allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise ToolError("validation_error", f"the arguments are not JSON: {error}") from None
        with self._turns:
            return self._ask("call", {"tool": str(name), "arguments": arguments})

    def search(self, query, limit=10):
        """Returns the tools that match the query, the best first."""
        return self._ask("search", {"query": str(query), "limit": str(int(limit))})

    def _ask(self, kind, values):
        import json

        if os.getpid() != PID:
            raise RuntimeError("a child process cannot call tools")
        if not running:
            raise RuntimeError("tools can be called only during a run")
        with lock:
            self._count += 1
            request, run = self._count, current
        flush()
        send(kind, {"id": str(request), **values})
        outcome, content = channel.answer(request, run)
        content = json.loads(content)
        if outcome == b"error":
            raise ToolError(content["type"], content["message"])
        return content

    def __getattr__(self, name):
        if name in self._names:
            return lambda arguments=None, /, **more: self.call(name, arguments, **more)
        raise AttributeError(f"there is no tool named {name!r}")

    def __dir__(self):
        return ["Error", "call", "search", *self._names]


def offer_tools(content):
    import json

    builtins.tools = Tools(json.loads(content))


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
while following := channel.next_run():
    current, source = following
    running = True
    perform(source)
