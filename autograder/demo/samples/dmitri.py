ABOUT = "late: complete, two days after the deadline"
REFERENCES = "all"
CHAPTERS = ["softmax"]
LATE_HOURS = 48.0
