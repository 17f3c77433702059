"""Mixture: of which groups are these rows, and how is each of them spread?"""
