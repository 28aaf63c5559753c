"""Times are read for what they are, or refused in words; they are never read as another day or zone."""

import datetime
import re
import zoneinfo

import pytest

from autograder.platforms import times

BERLIN, CHICAGO, KOLKATA = map(zoneinfo.ZoneInfo, ("Europe/Berlin", "America/Chicago", "Asia/Kolkata"))


@pytest.mark.parametrize(
    "text, zone, utc",
    [
        ("2026-09-30 18:30", BERLIN, "2026-09-30 16:30"),
        ("2026-09-30T18:30:00Z", BERLIN, "2026-09-30 18:30"),
        ("2026-09-30T18:30:00.123456+02:00", CHICAGO, "2026-09-30 16:30:00.123456"),
        ("2026-09-30 18:30 UTC+2", CHICAGO, "2026-09-30 16:30"),  # ahead of UTC, and not behind it as in POSIX
        ("2026-09-30 11:30 PDT", BERLIN, "2026-09-30 18:30"),
        ("2026-10-03 23:59 EST", BERLIN, "2026-10-04 04:59"),
        ("2026-09-30 10:30 America/Los_Angeles", BERLIN, "2026-09-30 17:30"),
        ("2026-09-30 18:30 IST", KOLKATA, "2026-09-30 13:00"),
        ("2026-11-01 01:30 CDT", CHICAGO, "2026-11-01 06:30"),  # the hour that comes twice
        ("2026-11-01 01:30 CST", CHICAGO, "2026-11-01 07:30"),
        ("Tuesday, 29 September 2026, 6:00 PM", BERLIN, "2026-09-29 16:00"),
        ("Sep 30th, 2026 at 12:15 a.m.", BERLIN, "2026-09-29 22:15"),
        ("Freitag, 2. Oktober 2026, 18:00", BERLIN, "2026-10-02 16:00"),
        ("vendredi 2 octobre 2026, 18:00", BERLIN, "2026-10-02 16:00"),
        ("viernes, 2 de octubre de 2026, 18:00", BERLIN, "2026-10-02 16:00"),
        ("пятница, 2 октября 2026, 18:00", BERLIN, "2026-10-02 16:00"),
        ("2026年9月30日 18:30", BERLIN, "2026-09-30 16:30"),
        ("30.09.2026 18:30", BERLIN, "2026-09-30 16:30"),
        ("2026-09-30", BERLIN, "2026-09-29 22:00"),
    ],
)
def test_a_time_is_read_with_its_zone_and_in_its_language(text, zone, utc):
    assert times.parse_time(text, zone) == datetime.datetime.fromisoformat(utc)


@pytest.mark.parametrize(
    "text, words",
    [
        ("03/04/2026 10:00", "write it as"),
        ("1790789400", "write it as"),
        ("tomorrow", "write it as"),
        ("", "write it as"),
        ("2026-09-30 24:00", "hour must be in"),
        ("2026-02-30 10:00", "day is out of range"),
        ("2026-09-30 13:00 pm", "13 o'clock has no pm"),
        ("2026-09-30 18:30 IST", "the time zone IST is not clear"),
        ("2026-09-30 18:30 Europe/Brlin", "there is no time zone Europe/Brlin"),
        ("2 Foober 2026, 18:00", "the month 'Foober' is not known"),
    ],
)
def test_what_is_not_clear_is_refused_in_words(text, words):
    with pytest.raises(ValueError, match=re.escape(words)) as refused:
        times.parse_time(text, BERLIN)
    assert repr(text) in str(refused.value) and times.known_time(text, BERLIN) is None


def test_a_name_of_two_months_is_read_in_neither_language(monkeypatch):
    """In Polish and Czech "listopad" is November, in Croatian October."""
    assert times.parse_time("3 listopad 2026") == datetime.datetime(2026, 11, 3)
    monkeypatch.setattr(times, "LANGUAGES", ["pl", "hr"])
    monkeypatch.setattr(times, "_months", times._months.__wrapped__)
    assert times.known_time("3 listopad 2026") is None


def test_a_time_is_shown_in_utc_and_beside_it_in_another_zone():
    due = datetime.datetime(2026, 9, 30, 18)
    assert [times.shown(due, zone) for zone in (datetime.UTC, zoneinfo.ZoneInfo("UTC"))] == [
        "2026-09-30 18:00:00 UTC"
    ] * 2
    assert times.shown(due, BERLIN) == "2026-09-30 18:00:00 UTC (2026-09-30 20:00 Europe/Berlin)"
