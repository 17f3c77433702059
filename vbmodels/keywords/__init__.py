"""Keywords: word graphs, features and the models that find a document's keywords.

- Keyphrases, the default: `phrases/model.py`, after the words' `corpus/model.py`. No published
  source.
- Corpus model of words: `corpus/model.py`. No published source.
- VBSS, one document at a time (Hu 2024, chapter 1): `vbss/model.py`.
- TextRank and SS, scores of the word graph: `graph.py`.
"""
