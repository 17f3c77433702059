"""From sample sheets, reads and base counts to partitions of locations."""
