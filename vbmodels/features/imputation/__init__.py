"""Missing cells of a table of categories by several models, weighed on cells hidden from them."""
