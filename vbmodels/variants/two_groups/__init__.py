"""Two groups of alternative alleles, alike in case and control or raised in the case."""
