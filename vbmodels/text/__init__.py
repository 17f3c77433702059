"""Documents to candidates: languages, cleaning, tokens, words, phrases; no model."""
