"""Read and run the chapters, and add to their pages: exercise cards, downloads, estimates, progress."""
