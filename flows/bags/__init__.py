"""Bags: which bags are positive, and which of their instances make them so."""
