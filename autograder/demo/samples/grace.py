"""The kernel dies in the softmax chapter; the other chapters are unharmed."""

ABOUT = "crash: the kernel dies in one notebook"
REFERENCES = "all"
CHAPTERS = ["dot_products", "softmax"]
CELLS = {"softmax": "import os\n\nos._exit(1)"}
