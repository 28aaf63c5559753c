"""Right answers, written otherwise than the references, on which hunts try a test: see `course.kit.hunt`."""
