"""Directives of the book's pages: quizzes and moving pictures."""
