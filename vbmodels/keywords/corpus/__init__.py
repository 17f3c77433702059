"""The corpus model: one probit regression over the words of all documents."""
