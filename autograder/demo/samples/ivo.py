ABOUT = "missing: hands in the first chapter and nothing else"
REFERENCES = "all"
CHAPTERS = ["dot_products"]
