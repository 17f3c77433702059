"""The mathematics of vbflows: arrays in, arrays out; no cluster, no files, no tables."""
