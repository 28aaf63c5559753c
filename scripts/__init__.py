"""Programs that record data, measure and compare; nothing imports them but tests."""
