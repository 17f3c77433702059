"""From columns of answers to codes of categories."""
