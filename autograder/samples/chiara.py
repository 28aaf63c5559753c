ABOUT = "empty: handed in as released"
