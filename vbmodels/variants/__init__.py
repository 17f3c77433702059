"""Variants from base counts of case and control replicates: two groups, RVD2, their rivals."""
