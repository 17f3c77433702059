"""What a run leaves below its target: its record, tables, states and locks."""
