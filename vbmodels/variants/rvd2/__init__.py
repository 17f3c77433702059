"""RVD2: error rates of one sample by mean field, its samplers and the test of two samples."""
