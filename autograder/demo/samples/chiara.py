ABOUT = "empty: handed in as released"
CHAPTERS = ["softmax"]
