"""Keywords: which words of each document are its keywords, given a few that are known."""
