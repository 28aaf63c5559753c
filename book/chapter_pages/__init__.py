"""Chapters: how they are read and run, and what their pages have besides their text."""
