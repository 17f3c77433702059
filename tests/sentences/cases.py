"""Every case by name: the family or the part that says something, and what of."""

from tests.sentences import (
    bags,
    experts,
    features,
    keywords,
    plans,
    python,
    reads,
    shapes,
    tables,
    variants,
    words,
)

MODULES = (bags, experts, features, keywords, variants, reads, tables, words, shapes, python, plans)
CASES = {
    f"{module.__name__.rpartition('.')[2]}: {name}": said
    for module in MODULES
    for name, said in module.CASES.items()
}
