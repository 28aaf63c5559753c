"""The student's side of a grading process: runs one file and probes what it defines. Run as a script, never imported.

It speaks in frames (eight bytes of length, then a value packed by `attnlab.codec`) over the descriptors it was given
as standard input and output. The student's code gets /dev/null in their place. It knows no expected value, and the
course's other packages are not on its path: only `attnlab` is loaded, by its location. Libraries named on the command
line are imported before it says that it has started, since that time is not the student's.

  from the grader: {"source", "filename", "name", "lent"}, then {"probe", "inputs"} as often as wanted
  to the grader:   {"started": True}, then {"loaded": {...parameters}} or {"failed": {...}}, then one outcome each
"""

import importlib
import importlib.util
import linecache
import os
import sys
from pathlib import Path


def _load_attnlab():
    """Import the package that this file stands in, without putting its parent folder on the path."""
    if "attnlab" not in sys.modules:
        here = Path(__file__).resolve().parent
        spec = importlib.util.spec_from_file_location(
            "attnlab", here / "__init__.py", submodule_search_locations=[str(here)]
        )
        sys.modules["attnlab"] = package = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package)


def main():
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    _load_attnlab()
    from attnlab import codec, frames
    from attnlab.observe import describe_error, observe

    for library in sys.argv[1:]:
        importlib.import_module(library)
    frames.write(outgoing, {"started": True})
    job = frames.read(incoming)
    target, reply = _define(job, describe_error)
    frames.write(outgoing, reply)
    while target is not None:
        request = frames.read(incoming)
        if request is None:
            break
        try:
            outcome = observe(target, request["probe"], request["inputs"], codec.frame)
        except BaseException as error:  # no one presses Ctrl-C here: KeyboardInterrupt is the student's own
            outcome = codec.frame({"error": describe_error(error, job["filename"])})
        frames.send(outgoing, outcome)
    outgoing.flush()
    os._exit(0)  # whatever threads the student's code left behind


def _define(job, describe_error):
    """Run the file as a module of its own; returns (the exercise's function or class or None, the reply)."""
    import types

    if job["lent"]:
        lend(**job["lent"])
    module = types.ModuleType("submission")
    module.__file__ = job["filename"]
    sys.modules["submission"] = module
    try:
        # For tracebacks: the grader wants to know whether an exception came from a `raise` of the student's own.
        linecache.cache[job["filename"]] = (len(job["source"]), None, job["source"].splitlines(True), job["filename"])
        exec(compile(job["source"], job["filename"], "exec"), module.__dict__)
    except BaseException as error:
        return None, {"failed": describe_error(error, job["filename"])}
    target = module.__dict__.get(job["name"])
    if not callable(target):
        what = "does not define" if target is None else "defines as something that cannot be called"
        return None, {"failed": {"type": "missing", "message": what, "line": None, "code": None}}
    return target, {"loaded": parameters(target)}


def lend(setting, sources):
    """Let `attnlab.mine` find the references that the grader lends: modules of a package that is nowhere on disk."""
    import importlib.abc

    class Lender(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path=None, target=None):
            package, _, module = name.partition(".")
            if package == "solutions" and (not module or module in sources):
                return importlib.util.spec_from_loader(name, self, is_package=not module)
            return None

        def exec_module(self, module):
            exec(compile(sources.get(module.__name__.partition(".")[2], ""), module.__name__, "exec"), vars(module))

    os.environ["ATTNLAB_MINE"] = setting
    sys.meta_path.append(Lender())


def parameters(target):
    """The names of the parameters, for a clear word about a changed signature."""
    import inspect

    try:
        found = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[p.name, p.kind.name, p.default is not p.empty] for p in found]


if __name__ == "__main__":
    main()
