"""What a run reads and leaves: storage, tables and their checks, partitions, records, locks."""
