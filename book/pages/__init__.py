"""What every page gets: formulas, wrapped code, a head, links to other hosts, and what screen readers need."""
