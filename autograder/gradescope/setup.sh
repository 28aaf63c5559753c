#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image of the autograder: Python and what grading needs.
# GRADESCOPE_ROOT names another folder than /autograder, to try it elsewhere.
set -euo pipefail
root=${GRADESCOPE_ROOT:-/autograder}
cd "$root/source"

if ! [ -x "$root/venv/bin/python" ]; then
    apt-get update
    for version in 3.12 3.11; do # Ubuntu 24.04 has the first, 22.04 the second
        apt-get install -y "python$version" "python$version-venv" && break
    done
    "python$version" -m venv "$root/venv"
    # PyTorch for the CPU alone: the build that pip takes by default is several gigabytes.
    "$root/venv/bin/python" -m pip install --index-url https://download.pytorch.org/whl/cpu "$(grep ^torch== requirements.txt)"
fi
"$root/venv/bin/python" -m pip install --quiet --requirement requirements.txt

# What student code can and cannot do in this container, for whoever reads the log of the build.
bash run_autograder doctor || echo "see the lines that begin with MISSING"
