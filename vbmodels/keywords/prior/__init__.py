"""What is known of keywords before any text is read: their share, and their number."""
