"""Features: hidden features that explain a table of categories, and who has them."""
