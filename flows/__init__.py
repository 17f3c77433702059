"""The movement of data through vbflows: ingest, partition, fit, score, publish."""
