"""What a run leaves behind: its record, its tables, its report, and the name of the latest."""
