"""From files of instances to bags of arrays, their labels and their groups."""
