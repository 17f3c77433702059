"""Every case by name: the family or the part that says something, and what of."""

from tests.sentences import (
    bags,
    experts,
    features,
    keywords,
    reads,
    shapes,
    tables,
    variants,
    words,
)

CASES = {
    f"{module.__name__.rpartition('.')[2]}: {name}": said
    for module in (bags, experts, features, keywords, variants, reads, tables, words, shapes)
    for name, said in module.CASES.items()
}
