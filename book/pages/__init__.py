"""Finish every page: formulas, wrapped code, metadata, links to other hosts, accessibility."""
