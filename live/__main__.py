"""`python -m live` writes the model's pieces into build/live."""

import sys

from attnlab import smollm2
from live import shards

try:
    folder = shards.write()
except smollm2.NoModel as error:
    sys.exit(str(error))
many, size = shards.measure(folder)
print(f"{folder}: {many} pieces, {size / 1e6:.0f} MB")
