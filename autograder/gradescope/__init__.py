ASSIGNMENT, OPTIONS = "assignment.bin", "options.json"  # in the zip: what is graded, and how
