"""What the regression is held to: pytest --pyargs vbflows_logistic."""
