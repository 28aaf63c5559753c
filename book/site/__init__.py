"""Complete the built site: fonts, search, `404.html`, the language model, a check of each page's weight."""
