"""The bases, in the order of every array of counts."""

BASES = "ACGT"
