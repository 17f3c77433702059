"""From columns as they come to labels and arrays."""
