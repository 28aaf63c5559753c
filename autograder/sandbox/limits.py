"""Every limit of a submission: what its process may use, how long it may take, and how much of it is read and kept."""

from dataclasses import dataclass

MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The limits of one sandbox."""

    memory: int = 3072 * MB  # bytes of all its processes together, files in memory included
    processes: int = 128  # at a time, threads included
    open_files: int = 512  # of each process
    file_size: int = 64 * MB  # bytes of each file
    scratch: int = 256 * MB  # bytes of all files in each folder that it may write to
    cpu_seconds: int = 1200  # of each process

    @property
    def mapped(self) -> int:
        """Bytes that each process may map: PyTorch maps much more than it uses."""
        return self.memory + 7168 * MB

    def rlimits(self) -> list[str]:
        """The limits among the arguments of `inside/set_limits.py`."""
        return [str(n) for n in (self.mapped, self.processes, self.open_files, self.file_size, self.cpu_seconds)]


LEAST_MEMORY, LEAST_PROCESSES = 512 * MB, 32  # with which a notebook that uses PyTorch still runs


# A limit of processor time also ends what has lasted this many times as long, however busy the machine is.
WALL = 6


@dataclass(frozen=True)
class Times:
    """Seconds of processor time, of a process and its children; of notebooks, of the clock on the wall."""

    cell: float = 180.0  # a chapter may train a small model
    case: float = 15.0  # one test case
    submission: float = 1500.0  # one notebook
    grader: float = 60.0  # processor time of the grader's own, to read, judge and clean one submission


FIRST_SECONDS = 120.0  # of a notebook in a first pass; a submission that needs more is graded after the others

FILE_LIMITS = Limits(file_size=16 * MB)  # of a stand-alone file
FILE_SECONDS = 10.0  # of processor time, for one question

# The grader's own time: for the interpreter with its libraries, and for a process to be forked from a warm one.
START_SECONDS, FORK_SECONDS = 90.0, 15.0

GRADER_MEMORY = 1024 * MB  # bytes that the grader's own process may take to read, judge and clean one submission
MAX_RESULT = 256 * MB  # bytes of one submission's result

# What is handed in
MAX_FILE = 128 * MB  # bytes of one file
MAX_NOTEBOOKS = 50  # notebooks in a submission's folder that are read, whatever their names
MAX_FOLDER = 128 * MB  # bytes of these together, but for the last one
MAX_TOKENS = 20_000_000  # strings and brackets in a notebook's file
MAX_NOTEBOOK = 16 * MB  # bytes without pictures and without outputs, which are not read and are most of a large file
MAX_SOURCE = 1 * MB  # characters of one cell, bytes of a stand-alone file
MAX_CELLS = 2000
MAX_NESTING = 100
MAX_PARTS = 2_000_000  # commas and brackets, those in texts too, of what is built
MAX_BESIDE = 1000  # files beside the notebooks
MAX_SEARCHED = 60_000  # characters of code that is searched for dependencies; takes seconds

MAX_OUTPUTS = 2000  # of one notebook

# What is collected, of one student
MAX_FILES = 20_000  # looked at, those in archives included
MAX_COLLECTED = 128 * MB  # of one file; a larger one is left out
MAX_UNPACKED = 256 * MB  # of all that is read, archives included
MAX_DEPTH = 2  # archives in archives

# What is shown, in characters
MAX_TEXT = 400_000  # of what one cell prints, and of one output
MAX_DATA = 2_000_000  # of all that one cell shows besides
MAX_PICTURE = 8_000_000  # of one, in base64: 6 MB
MAX_PICTURES = 4 * MAX_PICTURE  # of those in the texts of a notebook
MAX_PIXELS = 50_000_000  # of one picture; a small file can hold many
MAX_HTML = 100_000  # of one output in HTML
MAX_ANSWER = 20_000  # of one written answer
MAX_CODE = 100_000  # of one cell of code
MAX_MARKUP = 500_000  # of HTML, Markdown and code in a notebook; some take the square of their length to read
MAX_SHOWN = 6_000_000  # of all that one notebook shows
