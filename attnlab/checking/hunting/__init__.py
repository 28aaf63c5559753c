"""Hunts, in which the student writes the test: opaque implementations, mutants, and the examination of a test."""
