"""What belongs to the site as a whole: fonts, search, the page for missing addresses, the model, a limit of weight."""
