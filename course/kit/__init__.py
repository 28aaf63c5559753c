"""The language that exercises are written in."""
