"""The kernel dies in the softmax chapter; the other chapters are unharmed."""

ABOUT = "crash: the kernel dies in one notebook"
REFERENCES = "all"
CELLS = {"softmax": "import os\n\nos._exit(1)"}
