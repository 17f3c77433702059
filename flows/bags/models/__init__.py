"""The models of bags, their rivals, and what they say of bags and instances."""
