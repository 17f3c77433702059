"""Limits of numbers that models share with those who declare what data may hold."""

LARGEST = 1e150
"""Size of a number whose square, and sums of such, are still numbers."""
