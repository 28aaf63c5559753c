ABOUT = "late: complete, two days after the deadline"
REFERENCES = "all"
LATE_HOURS = 48.0
