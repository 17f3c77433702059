"""Bags of instances with one label a bag: which are positive, and which instance makes them so."""
