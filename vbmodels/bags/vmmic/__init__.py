"""vMMIC: several kinds of instances in a bag, with the instances that make it positive."""
