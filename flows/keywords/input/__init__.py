"""From documents and lists of terms to candidates and their counts."""
