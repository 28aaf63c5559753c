"""Directives for the book's pages: quizzes and moving pictures."""
