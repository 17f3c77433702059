"""The report of a run: sections and plots, and the page that holds them."""
