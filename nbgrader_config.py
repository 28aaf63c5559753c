"""Lets nbgrader's commands find the course's configuration from the root of the checkout."""

load_subconfig("autograder/nbgrader_config.py")  # noqa: F821 - given by traitlets
