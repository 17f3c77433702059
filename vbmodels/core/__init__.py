"""What all models share: states, the loop, exponential families, linear algebra."""
