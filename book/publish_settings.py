"""Fill in `_config.yml` what depends on where the book is published; the publishing workflow does.

`python -m book.publish_settings baseurl=https://example.org/attention/ repository=OWNER/NAME report_errors=ADDRESS`
"""

from __future__ import annotations

import json
import re
import sys

from book.errors import ConfigurationError
from course.folder import ROOT

SETTINGS = ("baseurl", "repository", "report_errors")


def filled(config: str, settings: dict[str, str]) -> str:
    """Return the text of `_config.yml` with the settings that are empty in it. A setting that has a value keeps it.

    Raises ConfigurationError for a setting that the text does not have.
    """
    for name, value in settings.items():
        if name not in SETTINGS or not re.search(rf"\b{name}: ", config):
            raise ConfigurationError(f"_config.yml has no setting {name}; there are: {', '.join(SETTINGS)}")
        config = re.sub(rf'\b{name}: ""', lambda _, name=name, value=value: f"{name}: {json.dumps(value)}", config)
    return config


def main(arguments: list[str]) -> None:
    path = ROOT / "_config.yml"
    settings = dict(argument.partition("=")[::2] for argument in arguments)
    path.write_text(filled(path.read_text("utf-8"), settings), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
