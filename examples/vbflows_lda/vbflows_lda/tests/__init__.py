"""What the topics are held to: pytest --pyargs vbflows_lda."""
