"""Columns of tables as they come: what their cells are, and what a model sees of them."""
