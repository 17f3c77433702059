"""Experts: the label of each row, and which expert is responsible for it."""
