ABOUT = "missing: hands in dot_products and nothing else"
REFERENCES = "all"
CHAPTERS = ["dot_products"]
