"""From evidence to calls: substitutions, insertions and deletions, and their files."""
