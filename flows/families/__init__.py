"""What each family of models supplies to the common pipeline: plain functions, in data order."""
