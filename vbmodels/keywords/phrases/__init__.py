"""Phrases of up to four words as keywords, with probabilities of their own."""
