"""What the mixture is held to: pytest --pyargs vbflows_mixture."""
