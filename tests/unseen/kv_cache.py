"""Wrong answers to the caching chapter that its list of misconceptions does not hold in these words."""

UNSEEN = {}
