"""Multiple-instance learning: bags of instances with one label a bag."""
