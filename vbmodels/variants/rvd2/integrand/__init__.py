"""RVD2's integrand at the nodes of q(mu), compiled."""
