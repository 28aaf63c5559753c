"""The code behind `check`: calls an answer, compares its results, and explains what is wrong. It holds no answer."""
