"""Variants: which alleles are in the case's reads beyond errors, compared with a control."""
