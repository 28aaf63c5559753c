"""The publishing workflow fills in where the book is published, and a setting that has a value keeps it."""

import pytest
import yaml

from book import publish_settings
from book.errors import ConfigurationError
from course.folder import ROOT

CONFIG = (ROOT / "_config.yml").read_text("utf-8")
GIVEN = {
    "baseurl": "https://example.org/attention",
    "repository": "someone/course",
    "report_errors": "https://github.com/someone/course/issues/new",
}


def settings(config: str) -> dict[str, str]:
    read = yaml.safe_load(config)
    sphinx = read["sphinx"]["config"]
    return {
        "baseurl": read["html"]["baseurl"],
        "repository": sphinx["launch"]["repository"],
        "report_errors": sphinx["report_errors"],
    }


def test_empty_settings_are_filled_in_and_nothing_else_changes():
    filled = publish_settings.filled(CONFIG, GIVEN)
    assert settings(CONFIG) == dict.fromkeys(GIVEN, "") and settings(filled) == GIVEN
    different = [line for line in filled.splitlines() if line not in CONFIG.splitlines()]
    assert len(different) == len(GIVEN)


def test_a_setting_that_has_a_value_keeps_it():
    own = publish_settings.filled(CONFIG, {"baseurl": "https://own.example.org/"})
    assert settings(publish_settings.filled(own, GIVEN)) == {**GIVEN, "baseurl": "https://own.example.org/"}


def test_a_repository_that_is_not_published_leaves_the_links_out():
    assert publish_settings.filled(CONFIG, {"repository": ""}) == CONFIG


@pytest.mark.parametrize("name", ["base_url", "title"])
def test_a_setting_that_the_configuration_does_not_have_is_refused(name):
    with pytest.raises(ConfigurationError, match=f"no setting {name}"):
        publish_settings.filled(CONFIG, {name: "x"})


def test_the_workflow_gives_every_setting():
    workflow = (ROOT / ".github" / "workflows" / "publish.yml").read_text("utf-8")
    (line,) = [line for line in workflow.splitlines() if "book.publish_settings" in line]
    assert [name for name in publish_settings.SETTINGS if f"{name}=" in line] == list(publish_settings.SETTINGS)
