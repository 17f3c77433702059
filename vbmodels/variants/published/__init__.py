"""RVD2 as its papers print it: forms, samplers and the difference of two samples."""
