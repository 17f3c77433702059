"""Keywords: word graphs, features and the models that find a document's keywords."""
