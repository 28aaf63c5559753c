"""The student's side of grading: runs the cells of a notebook, then answers probes.

Run as a script inside the jail, `notebook_session.py ATTNLAB LIBRARY...`: the folder of that package, and what to load
before the first cell.

It speaks in frames (see `attnlab.checking.codec`) over the descriptors it was given as standard input and output; the
cells get other streams. It knows no expected value. Any message may be forged by the code it runs: the grader takes
outputs for show, and results only as numbers to compare. The types of the grader's messages are in
`attnlab.checking.schema`:

  from the grader: a `Job`, then an `Order` at a time: to run a cell, to lend a reference, or to take a snapshot
  to the grader:   {"started": True}, then {"outputs": [...], "late": bool} for a cell, {"outputs": []} for a reference,
                   {"taken": bool} for a snapshot

A snapshot is a forked copy of the process (the last is the process itself), which waits at a socket of its own:

  from the grader: a `LoadQuestion`, then any number of `Question`s
  to the grader:   {"loaded": parameters} or {"failed": {...}}, then an `Outcome` for each question

A question about a hunt is {"hunt": contract}: until {"verdict": {...}} comes, each message to the grader is
{"call": {...}}, a call of the implementation, and what comes back is its reply (see `attnlab.checking.hunting.opaque`).

So an exercise is judged as the notebook stood at its check, and no input reaches a process whose output is still to be
shown. A stand-alone file is a notebook without cells: it runs when its answer is loaded, as a module of its own.
"""

import base64
import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import linecache
import marshal
import os
import signal
import sys
import time
import types
from typing import Any

if "attnlab" not in sys.modules:  # of the checkout that it lies in, this package alone can be imported
    _spec = importlib.util.spec_from_file_location(
        "attnlab", f"{sys.argv[1]}/__init__.py", submodule_search_locations=[sys.argv[1]]
    )
    assert _spec and _spec.loader
    sys.modules["attnlab"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["attnlab"])

from attnlab.checking import codec  # noqa: E402
from attnlab.checking.observe import describe_error  # noqa: E402

CHECKING = "attnlab.checking"
GAVE_VERDICT = 77  # the exit code of a fork that has sent its verdict
TOO_MUCH = "\n[The rest of this output was too long to keep.]\n"


class Outputs(list):
    """The outputs of one cell so far, in the form of a notebook.

    text, data: how many characters are kept of what it prints, and of all that it shows besides; most: of outputs
    """

    def __init__(self, text: int = 0, data: int = 0, most: int = 0):
        super().__init__()
        self.text, self.data, self.most = text, data, most

    def append(self, output: dict[str, Any]) -> None:
        if len(self) < self.most:
            super().append(output)
        elif len(self) == self.most:
            super().append(too_much())

    def stream(self, name: str, text: str) -> None:
        if self.text < 0:
            return
        self.text -= len(text)
        if self.text < 0:
            text = text[: self.text] + TOO_MUCH
        if self and self[-1].get("name") == name and len(self) <= self.most:
            self[-1]["text"] += text
        else:
            self.append({"output_type": "stream", "name": name, "text": text})

    def show(self, kind: str, data: dict[str, Any], metadata: dict[str, Any] | None, **more) -> None:
        plain = {}
        for mime, value in data.items():
            value = base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
            self.data -= len(str(value))
            if self.data < 0:
                plain = {"text/plain": TOO_MUCH.strip()}
                break
            plain[str(mime)] = value
        if self.data > -100_000:  # said once or twice, not for each of a thousand figures
            self.append({"output_type": kind, "data": plain, "metadata": dict(metadata or {}), **more})

    def error(self, name: str, words: str, traceback: list[str]) -> None:
        self.append({"output_type": "error", "ename": name, "evalue": words, "traceback": traceback})


def too_much() -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": TOO_MUCH}


class Stream(io.TextIOBase):
    """The stream that `print` writes to."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, name: str, shell):
        self.name, self._shell = name, shell

    def write(self, text) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._shell.shown.stream(self.name, text)
        return len(text)

    def writable(self) -> bool:
        return True


def make_shell():
    """An IPython shell that puts everything it shows into `shell.shown`."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Hook(DisplayHook):
        shell: Any

        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            self.shell.shown.show("execute_result", format_dict, md_dict, execution_count=self.prompt_count)

        def finish_displayhook(self):
            pass

    class Publisher(DisplayPublisher):
        shell: Any

        def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
            if not update:  # an update of an earlier cell's output is not followed
                self.shell.shown.show("display_data", data, metadata)

        def clear_output(self, wait=False):
            self.shell.shown.clear()

    class Shell(InteractiveShell):
        displayhook_class: Any = Hook
        display_pub_class: Any = Publisher
        shown: Outputs

        def enable_gui(self, gui=None):
            pass

        def _showtraceback(self, etype, evalue, stb):
            name = str(getattr(etype, "__name__", etype))[:200]
            self.shown.error(name, _words_of(evalue), [str(line)[:4000] for line in stb[-60:]])

    config = Config()
    config.HistoryManager.enabled = False
    shell: Shell = Shell.instance(config=config)
    shell.shown = Outputs()
    shell.user_ns["input"] = shell.user_ns_hidden["input"] = no_input
    return shell


def no_input(prompt="") -> str:
    """`input` in a notebook: nothing is typed, and it returns an empty line at once."""
    print(prompt)
    return ""


def _words_of(error) -> str:
    try:
        return str.__str__(str(error))[:2000]
    except BaseException:  # an exception of the student's own may not even print
        return ""


class CellTimeout(BaseException):
    """This cell exceeded its time limit."""


def run_cell(shell, order: dict[str, Any]) -> bytes:
    """Pack a cell's outputs as the frame of a reply. order: a `RunOrder`

    It is stopped when it has used so many seconds of the processor, its children included, when it has only waited for
    as long, or after `wall` times as long.
    """
    shell.shown, seconds, wall = (
        Outputs(order["text"], order["data"], order["outputs"]),
        order["seconds"],
        order["wall"],
    )
    sys.stdout, sys.stderr = Stream("stdout", shell), Stream("stderr", shell)
    begin, before = time.monotonic(), sum(os.times()[:4])

    def late(*_):
        passed, used = time.monotonic() - begin, sum(os.times()[:4]) - before
        if used < seconds and passed < wall * seconds and used > passed / (2 * wall):
            signal.setitimer(signal.ITIMER_REAL, max(0.2, seconds - used))
            return
        words = "of processor time" if used >= seconds else "by the clock"
        raise CellTimeout(f"this cell took longer than {seconds:g} seconds {words}")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    error = None
    try:
        result = shell.run_cell(order["cell"], store_history=True, silent=False)
        error = result.error_before_exec or result.error_in_exec
    except BaseException as escaped:  # what IPython lets through
        error = escaped
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    shown = shell.shown
    if error is not None and not any(output["output_type"] == "error" for output in shown):
        name, words = type(error).__name__, _words_of(error)
        shown.error(name, words, [f"{name}: {words}"])
    late_or_not = {"late": isinstance(error, CellTimeout)}
    try:
        return codec.frame({"outputs": [_plain(output) for output in shown], **late_or_not})
    except codec.CodecError:  # many parts in one output
        return codec.frame({"outputs": [too_much()], **late_or_not})


def _plain(value, depth=0):
    """Outputs as JSON knows them, whatever a display method gave."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, dict) and depth < 8:
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and depth < 8:
        return [_plain(item, depth + 1) for item in value]
    return str(value)


def answer_probes(shell, channel: int) -> None:
    """Serve one exercise's probes until the channel ends."""
    incoming, outgoing = os.fdopen(channel, "rb"), os.fdopen(os.dup(channel), "wb")
    nothing = io.StringIO()
    nothing.write = len
    sys.stdout = sys.stderr = nothing
    shell.shown = Outputs()
    target, check = None, reload_check_modules()
    codec = check.codec
    while (request := codec.read(incoming)) is not None:
        if "answer" in request:
            target, reply = load(shell.user_ns, request["answer"], request["file"])
            codec.write(outgoing, reply)
            if target is None:
                return
            continue
        if "hunt" in request:
            hunt(target, request["hunt"], incoming, outgoing, codec)
            continue
        try:
            outcome = check.observe(target, request["probe"], request["inputs"], codec.frame)
        except BaseException as error:  # no Ctrl-C is pressed here: KeyboardInterrupt is the student's own
            outcome = codec.frame({"error": describe_error(error, None)})
        codec.write(outgoing, outcome)


def hunt(test, contract: dict[str, Any], incoming, outgoing, codec) -> None:
    """Give a test's verdict on one implementation, which the grader has, in a fork: nothing is left of it afterward."""
    opaque, observe = (importlib.import_module(f"{CHECKING}.{name}") for name in ("hunting.opaque", "observe"))
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != GAVE_VERDICT:
            os._exit(1)
        return

    def ask(message):
        codec.write(outgoing, {"call": message})
        return codec.read(incoming)

    try:
        described = functools.partial(observe.describe_error, own_file=observe.source_file(test))
        found = opaque.verdict(test, opaque.opaque(contract, ask), described)
    except BaseException as error:  # no Ctrl-C is pressed here: KeyboardInterrupt is the student's own
        found = {"accepted": False, "error": describe_error(error, None)}
    codec.write(outgoing, {"verdict": found})
    os._exit(GAVE_VERDICT)


def reload_check_modules():
    """Load `attnlab.checking.observe` again, with all that it uses, so that a cell's changes to them have no effect.

    This is not a wall, and need not be, since the grader draws the conclusions.
    """
    for name in [name for name in sys.modules if _is_of_the_check(name)]:
        del sys.modules[name]
    vars(sys.modules["attnlab"]).pop("checking", None)
    if Compiled not in sys.meta_path:
        sys.meta_path.insert(0, Compiled)
    return importlib.import_module(f"{CHECKING}.observe")


def _is_of_the_check(name: str) -> bool:
    return name == CHECKING or name.startswith(f"{CHECKING}.")


class Compiled(importlib.machinery.PathFinder):
    """Finds the modules of the check, and compiles each once: all snapshots load them, a dozen times a notebook."""

    code: dict[str, Any] = {}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if _is_of_the_check(name) else None
        if spec:
            loader: Any = spec.loader
            compiled = cls.code[name] = cls.code.get(name) or loader.get_code(name)
            loader.get_code = lambda _: compiled
        return spec


def load(namespace: dict[str, Any], name: str, file: list[str] | None) -> tuple:
    """Find the function or class of that name, in the notebook or in a file, and the reply; None if it is missing."""
    if file:
        source, filename = file
        module = types.ModuleType("submission")
        module.__file__ = filename
        sys.modules["submission"], namespace = module, vars(module)
        # For tracebacks: the grader wants to know whether an exception came from a `raise` of the student's own.
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        try:
            exec(compile(source, filename, "exec"), namespace)
        except BaseException as error:
            return None, {"failed": describe_error(error, filename)}
    target = namespace.get(name)
    if not callable(target):
        what = "does not define" if target is None else "defines as something that cannot be called"
        return None, {"failed": {"type": "missing", "message": what, "line": None, "code": None}}
    return target, {"loaded": parameters(target)}


def parameters(target) -> list | None:
    """Name, kind and whether there is a default, of each parameter: for a clear message about a changed signature."""
    try:
        found = inspect.signature(target).parameters.values()
    except (TypeError, ValueError, NameError):  # Python 3.14 evaluates annotations here
        return None
    return [[p.name, p.kind.name, p.default is not p.empty] for p in found]


def take_snapshot(shell, channel: int, others: list[int]) -> bool:
    """Fork a copy that waits. Returns, in the original, whether there is one."""
    try:
        child = os.fork()
    except OSError:
        return False
    if child:
        os.close(channel)
        return True
    try:
        for other in others:
            os.close(other)
        answer_probes(shell, channel)
    finally:
        os._exit(0)


def provide_references(setting: str, modules: dict[str, Any]) -> None:
    """Let `attnlab.mine` find the references of earlier chapters: modules of a package that is nowhere on disk.

    modules: name -> compiled code, as bytes in an array
    """

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path=None, target=None):
            package, _, module = name.partition(".")
            if package == "solutions" and (not module or module in modules):
                return importlib.util.spec_from_loader(name, self, is_package=not module)
            return None

        def exec_module(self, module):
            code = modules.get(module.__name__.partition(".")[2])
            if code is not None:
                exec(marshal.loads(code.tobytes()), vars(module))

    os.environ["ATTNLAB_MINE"] = setting
    sys.meta_path.append(Finder())


def lend(namespace: dict[str, Any], name: str, code: bytes) -> None:
    """Define one name of the notebook again. Everything else that the code defines is kept in a separate module.

    The notebook's code can reach and inspect what is lent, so a grader lends only what no longer earns points.
    """
    module = types.ModuleType("lent")
    exec(marshal.loads(code), vars(module))
    namespace[name] = vars(module)[name]


def detach_std_streams():
    """The streams to and from the grader. In place of standard input and output the cells get nothing."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    return incoming, outgoing


def serve(shell, incoming, outgoing) -> None:
    """Do one notebook's work, and end the process."""
    codec.write(outgoing, {"started": True})
    job = codec.read(incoming)
    if job["references"]:
        provide_references(**job["references"])
    if any(not name.startswith(".") for name in os.listdir()):
        sys.path.insert(0, os.getcwd())  # the instructor's modules beside the notebook can be imported, as in Jupyter
    channels = dict(zip(job["answers"], job["channels"]))
    while (request := codec.read(incoming)) is not None:
        if "cell" in request:
            codec.write(outgoing, run_cell(shell, request))
            continue
        if "lend" in request:
            with contextlib.suppress(BaseException):  # what the notebook has altered may fail; it is its own loss
                lend(shell.user_ns, request["lend"], request["code"].tobytes())
            codec.write(outgoing, {"outputs": []})
            continue
        channel = channels.pop(request["snapshot"])
        if request["last"]:  # nothing will change the state any more; what comes after the answers is the end
            codec.write(outgoing, {"taken": True})
            answer_probes(shell, channel)
        else:
            others = [*channels.values(), incoming.fileno(), outgoing.fileno()]
            codec.write(outgoing, {"taken": take_snapshot(shell, channel, others)})
    os._exit(0)  # whatever threads the student's code left behind


def main():
    streams = detach_std_streams()
    shell = make_shell()
    for library in sys.argv[2:]:
        importlib.import_module(library)
    serve(shell, *streams)


if __name__ == "__main__":
    main()
