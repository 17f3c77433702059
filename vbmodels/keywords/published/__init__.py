"""VBSS and BSS as their papers print them, per document, with their samplers."""
