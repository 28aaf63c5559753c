"""Everything that grades: exercises, assembling, hidden tests, and the nbgrader set-up. Never shipped to students."""
