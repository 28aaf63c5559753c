ABOUT = "late: complete, two days after the deadline"
REFERENCES = "all"
CHAPTERS = ["dot_products", "softmax", "attention"]
LATE_HOURS = 48.0
