"""Results as Delta tables, where lakehouses look for them."""
